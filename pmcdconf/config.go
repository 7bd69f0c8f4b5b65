// Package pmcdconf reads what pmcd is configured with: pmcd.conf and the access
// file beside it (pmcd(1), "CONFIGURATION"), the label files of this host and
// labels.conf(5), and pcp.conf(5).
//
// What is accepted, what is skipped and what is rejected is as with PCP's
// pmcd, so that one file serves both. Mistakes are reported with their place
// and can be rendered as pmcd prints them.
package pmcdconf

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/access"
)

// A Kind is a way to reach an agent.
type Kind uint8

const (
	DSO    Kind = iota // a shared object with an entry point
	Socket             // connected to, and perhaps started before
	Pipe               // started, and talked to by its stdin and stdout
)

// String returns the word that pmcd.conf has for k.
func (k Kind) String() string {
	switch k {
	case DSO:
		return "dso"
	case Socket:
		return "socket"
	case Pipe:
		return "pipe"
	}
	return fmt.Sprintf("Kind(%d)", uint8(k))
}

// MaxDomain is the largest domain number of an agent. 511 is for derived
// metrics and for the roots of dynamic subtrees of the name space.
const MaxDomain = 510

// Agents that pmcd does not start like the others.
const (
	PMCDEntry  = "pmcd_init" // Entry of the agent that exports pmcd's own metrics: it is part of pmcd
	RootDomain = 1           // Domain of pmdaroot: it is started before the others, which connect to it
)

// An Agent is one line of pmcd.conf: an agent and the way to reach it.
type Agent struct {
	Name   string // what people call it; need not be unique
	Domain int    // 0 to MaxDomain, unique
	Kind   Kind

	Entry, Path string // DSO: the name of the function, the file; "" is none: "builtin" in pmcd.conf

	// Socket: Address is what the file says: in the family Unix the path, else
	// the number or name of the port, which is in Port as a number. The number
	// is not checked; above 65535 nothing can be reached.
	Family  access.Family
	Address string
	Port    int

	Argv     []string // Socket and Pipe: the command; none for a socket agent that is there already
	NotReady bool     // Pipe: it will say when it is ready (PM_ERR_PMDAREADY)

	Pos Pos // of the name
}

// Same reports whether a and b are the same agent reached in the same way, so
// that at a reload the connection to a goes on as b.
//
// The name and NotReady do not matter, and neither does the path of a Unix
// domain socket: pmcd does not compare it.
func (a Agent) Same(b Agent) bool {
	if a.Domain != b.Domain || a.Kind != b.Kind {
		return false
	}
	switch a.Kind {
	case DSO:
		return a.Entry == b.Entry && a.Path == b.Path
	case Socket:
		return a.Family == b.Family && (a.Family == access.Unix || a.Port == b.Port) && slices.Equal(a.Argv, b.Argv)
	case Pipe:
		return slices.Equal(a.Argv, b.Argv)
	}
	return false
}

// String returns the connection parameters of a as the table of agents in
// pmcd's log shows them, with 0 for the interface of a DSO.
func (a Agent) String() string { return a.Params(0) }

// Params returns what String does, with the interface of a DSO
// (PMDA_INTERFACE_7 is 7), which is not known before it has been loaded.
func (a Agent) Params(iface int) string {
	switch a.Kind {
	case DSO:
		return fmt.Sprintf("dso i:%d  lib=%s entry=%s", iface, cmp.Or(a.Path, "builtin"), a.Entry)
	case Socket:
		s := fmt.Sprintf("bin sock dom=%s port=", a.Family)
		if a.Family == access.Unix {
			s += a.Address
		} else {
			s += fmt.Sprint(a.Port)
		}
		if len(a.Argv) > 0 {
			s += " cmd=" + a.Command()
		}
		return s
	}
	return "bin pipe cmd=" + a.Command()
}

// Command returns Argv as one line that pmcd.conf would cut up in the same way.
func (a Agent) Command() string {
	var b strings.Builder
	for i, arg := range a.Argv {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(quote(arg))
	}
	return b.String()
}

// quote returns a word as pmcd.conf may have it in an agent line.
func quote(w string) string {
	esc := strings.NewReplacer(`"`, `\"`, `#`, `\#`).Replace(w)
	if w == "" || strings.ContainsFunc(w, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) }) {
		return `"` + esc + `"`
	}
	return esc
}

// A Config is what a configuration file says.
type Config struct {
	Agents []Agent // in the order of the file; may be empty, which pmcd takes for an error
	// Rejected are the good agent lines of a configuration that is rejected:
	// to be looked at, not to be used.
	Rejected []Agent
	Access   *access.List // never nil
	// Problems are mistakes and warnings in the order of the files. There may
	// be mistakes in an accepted configuration: lines that were skipped.
	Problems ErrorList
}
