// Plugin makes package pmimport a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	pmimport  43  dso  pmimport_init  /usr/local/lib/pcp/pmda_pmimport.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/pmimport"
)

// PmimportInit is the entry point pmimport_init.
func PmimportInit(domain int) (agents.Agent, error) { return pmimport.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return pmimport.New(domain) }

func main() {} // is not called
