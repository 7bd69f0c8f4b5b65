// Plugin makes package txmon a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	txmon  248  dso  txmon_init  /var/lib/pcp/pmdas/txmon/pmda_txmon.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/txmon"
)

// TxmonInit is the entry point txmon_init.
func TxmonInit(domain int) (agents.Agent, error) { return txmon.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return txmon.New(domain) }

func main() {} // is not called
