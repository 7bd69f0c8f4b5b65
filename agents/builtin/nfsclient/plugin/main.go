// Plugin makes package nfsclient a Go plugin for pmcd: see docs/plugins.md. In
// pmcd.conf it is
//
//	nfsclient  62  dso  nfsclient_init  /usr/local/lib/pcp/pmda_nfsclient.so
package main

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/nfsclient"
)

// NfsclientInit is the entry point nfsclient_init.
func NfsclientInit(domain int) (agents.Agent, error) { return nfsclient.New(domain) }

// NewAgent is the entry point of any other name.
func NewAgent(domain int) (agents.Agent, error) { return nfsclient.New(domain) }

func main() {} // is not called
