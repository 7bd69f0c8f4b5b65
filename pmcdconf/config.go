// Package pmcdconf reads pmcd's configuration: pmcd.conf and its access file
// (pmcd(1), "CONFIGURATION"). The packages below it read PCP's other files and
// options.
//
// The package accepts, skips and rejects the same lines as PCP's pmcd, so that
// both can use one file. It reports mistakes with their file, line and column,
// and can print them with the text that C pmcd has in its log.
//
// Package pmcdconf serves the programs of this module, and may change in any release.
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
	Socket             // a socket that pmcd connects to; pmcd may start the agent first
	Pipe               // a process that pmcd starts, with pipes as its stdin and stdout
)

// String returns the word for k in pmcd.conf.
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

// Agents that pmcd starts differently.
const (
	PMCDEntry  = "pmcd_init" // Entry of the agent that exports pmcd's own metrics; it is part of pmcd
	RootDomain = 1           // Domain of pmdaroot; pmcd starts it first, because other agents connect to it
)

// An Agent is one line of pmcd.conf: an agent and the way to reach it.
type Agent struct {
	Name   string // label in pmcd.conf; need not be unique
	Domain int    // 0 to pdu.MaxDomain, unique
	Kind   Kind

	// DSO: the name of the init function, and the file. Path is "" for "builtin",
	// an agent without a file.
	Entry, Path string

	// Socket: Address is the text in the file. In the family Unix it is the
	// path. Otherwise it is the number or the name of the port, and Port is its
	// number. Port is not checked: above 65535 the agent cannot be reached.
	Family  access.Family
	Address string
	Port    int

	Argv     []string // Socket and Pipe: the command; empty for a socket agent that pmcd does not start
	NotReady bool     // Pipe: the agent will report when it is ready (PM_ERR_PMDAREADY)

	Pos Pos // of the name
}

// Same reports whether a and b are the same agent with the same connection
// parameters, so that a reload can keep the connection to a for b.
//
// Same ignores the name, NotReady and the path of a Unix domain socket, as C pmcd
// does.
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

// Params returns the string of String with iface as the interface of a DSO
// (PMDA_INTERFACE_7 is 7). The interface is known when the DSO has been loaded.
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

// Command returns Argv as one line with the quotes that pmcd.conf needs.
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

// quote returns a word with the quotes that it needs in an agent line.
func quote(w string) string {
	esc := strings.NewReplacer(`"`, `\"`, `#`, `\#`).Replace(w)
	if w == "" || strings.ContainsFunc(w, func(r rune) bool { return r < 0x80 && isSpace(byte(r)) }) {
		return `"` + esc + `"`
	}
	return esc
}

// A Config is the content of a configuration file.
type Config struct {
	Agents []Agent // in the order of the file; may be empty, which is an error for pmcd
	// Rejected are the valid agent lines of a rejected configuration. They are
	// for display only.
	Rejected []Agent
	Access   *access.List // never nil
	// LeftOut are the warnings of Problems about access rules that are not in Access,
	// because there is no address for their host at the moment.
	LeftOut ErrorList
	// Complete is nil unless the addresses of this host's own name were not known
	// (Options.OwnNameLater), so that Access has those of localhost in their place. It asks the
	// Resolver for them, and returns Access with them, or nil if there are none. The error is that
	// of access.New: with them, rules contradict each other. Any goroutine may call it.
	Complete func() (*access.List, error)
	// Problems are the mistakes and warnings, in the order of the files. An
	// accepted configuration has mistakes if lines were skipped.
	Problems ErrorList
}
