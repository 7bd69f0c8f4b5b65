// Plugin makes package linux a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	linux  60  dso  linux_init  /usr/local/lib/pcp/pmda_linux.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/linux"
)

// LinuxInit is the entry point linux_init.
func LinuxInit(domain int) (agents.Agent, error) { return linux.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return linux.New(domain) }

func main() {} // is not called
