// Plugin makes package xfs a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	xfs  11  dso  xfs_init  /usr/local/lib/pcp/pmda_xfs.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/xfs"
)

// XfsInit is the entry point xfs_init.
func XfsInit(domain int) (agents.Agent, error) { return xfs.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return xfs.New(domain) }

func main() {} // is not called
