// Plugin makes package mmv a Go plugin for pmcd: see docs/plugins.md. In pmcd.conf it
// is
//
//	mmv      70  dso  mmv_init      /usr/local/lib/pcp/pmda_mmv.so
//	pmproxy  4   dso  pmproxy_init  /usr/local/lib/pcp/pmda_mmv.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/mmv"
)

// MmvInit is the entry point mmv_init.
func MmvInit(domain int) (agents.Agent, error) { return mmv.New(domain) }

// PmproxyInit is the entry point pmproxy_init.
func PmproxyInit(domain int) (agents.Agent, error) { return mmv.NewPMProxy(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return mmv.New(domain) }

func main() {} // is not called
