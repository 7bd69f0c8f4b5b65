// Plugin makes package cifs a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	cifs  121  dso  cifs_init  /usr/local/lib/pcp/pmda_cifs.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/cifs"
)

// CifsInit is the entry point cifs_init.
func CifsInit(domain int) (agents.Agent, error) { return cifs.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return cifs.New(domain) }

func main() {} // is not called
