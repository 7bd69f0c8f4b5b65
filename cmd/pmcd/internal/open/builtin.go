package open

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/cifs"
	"github.com/gopcp/pmcd/agents/builtin/jbd2"
	"github.com/gopcp/pmcd/agents/builtin/kvm"
	"github.com/gopcp/pmcd/agents/builtin/linux"
	"github.com/gopcp/pmcd/agents/builtin/mmv"
	"github.com/gopcp/pmcd/agents/builtin/nfsclient"
	"github.com/gopcp/pmcd/agents/builtin/pmimport"
	"github.com/gopcp/pmcd/agents/builtin/proc"
	"github.com/gopcp/pmcd/agents/builtin/root"
	"github.com/gopcp/pmcd/agents/builtin/simple"
	"github.com/gopcp/pmcd/agents/builtin/trace"
	"github.com/gopcp/pmcd/agents/builtin/trivial"
	"github.com/gopcp/pmcd/agents/builtin/txmon"
	"github.com/gopcp/pmcd/agents/builtin/xfs"
	agentserve "github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A builtinAgent is compiled in.
type builtinAgent struct {
	// newAgent is its constructor, which waits for nothing.
	newAgent func(domain int) (agents.Agent, error)
	// program returns the program of PCP that the agent stands for in a pipe line of its
	// domain; nil if there is none.
	program func() agentserve.Program
	// root says what it needs root's rights for. If this process has given them up,
	// the agent is a process of the root helper for that. Otherwise it is in this
	// process like others, with the rights of this process.
	root need
	// lacks says what it does not have without those rights.
	lacks string
}

// A need is what an agent needs rights for.
type need int

const (
	never        need = iota
	forContainer      // requests of clients that have chosen a container
	always
)

// BuiltinAgents are known by the entry point that a dso line names.
type BuiltinAgents map[string]builtinAgent

// Builtin is used for a dso line that says so, and for one whose file does not exist.
// There is one more, pmcd_init: it needs the daemon's memory, so the daemon has it.
var Builtin = BuiltinAgents{
	"cifs_init": {newAgent: cifs.New, program: cifs.Program},
	"jbd2_init": {newAgent: jbd2.New, program: jbd2.Program},
	"kvm_init": {newAgent: kvm.New, program: kvm.Program, root: always, // debugfs is for root
		lacks: "it has no values, which only root may read"},
	"linux_init": {newAgent: linux.New, program: linux.Program, root: forContainer},
	"mmv_init":   {newAgent: mmv.New, program: mmv.Program},
	"nfsclient_init": {newAgent: nfsclient.New, program: nfsclient.Program, root: always, // /proc/self/mountstats
		lacks: "it has no values, which only root may read"},
	"pmimport_init": {newAgent: pmimport.New, program: pmimport.Program},
	"pmproxy_init":  {newAgent: mmv.NewPMProxy, program: mmv.PMProxyProgram},
	"proc_init": {newAgent: proc.New, program: proc.Program, root: always, // it acts as the user of a client
		lacks: "it has no values that only the user of a process may read"},
	"root_init": {newAgent: root.New, program: root.Program, root: always, // it looks into containers
		lacks: "it does not know the containers of others, and has no socket for other agents"},
	"simple_init":  {newAgent: simple.New},
	"trace_init":   {newAgent: trace.New, program: trace.Program},
	"trivial_init": {newAgent: trivial.New},
	"txmon_init":   {newAgent: txmon.New},
	"xfs_init": {newAgent: xfs.New, program: xfs.Program, root: always, // quotas, and to reset statistics
		lacks: "it has no quotas and cannot reset statistics"},
}

// Entry returns the entry point of the built-in agent that is used for a if the file of a
// does not exist; "" if there is none.
func (b BuiltinAgents) Entry(a *pmcdconf.Agent) string {
	switch {
	case a.Kind == pmcdconf.DSO:
		if _, ok := b[a.Entry]; ok {
			return a.Entry
		}
	case a.Kind == pmcdconf.Pipe:
		name, _, _ := command(a)
		for entry, agent := range b {
			if agent.program == nil {
				continue
			}
			if p := agent.program(); p.Name == name && p.Domain == a.Domain {
				return entry
			}
		}
	}
	return ""
}

// command returns the name of the program that a pipe line runs, its file, and its options. For
// one of PCP's agents in Python, the name has no suffix, and the file is the interpreter if that
// does not exist. The name is "" if the path is not absolute.
func command(a *pmcdconf.Agent) (name, file string, options []string) {
	if name, missing, ok := child.InPython(a.Argv); ok {
		return name, cmp.Or(missing, a.Argv[1]), a.Argv[2:]
	}
	if filepath.IsAbs(a.Argv[0]) {
		name = filepath.Base(a.Argv[0])
	}
	return name, a.Argv[0], a.Argv[1:]
}

// Has reports whether a built-in agent is used for a: there is one, and the file of a
// does not exist.
func (b BuiltinAgents) Has(a *pmcdconf.Agent) bool {
	if b.Entry(a) == "" {
		return false
	}
	_, err := os.Stat(File(a))
	return errors.Is(err, fs.ErrNotExist)
}

// CheckOptions returns what is wrong with the options of a, a pipe line for which a
// built-in agent is used: the error with which it would not start, or what would have no
// effect.
func (b BuiltinAgents) CheckOptions(a *pmcdconf.Agent) error {
	in, err := b.standIn(a)
	if err == nil && len(in.Ignored) > 0 {
		err = fmt.Errorf("%s is ignored", strings.Join(in.Ignored, ", "))
	}
	return err
}

// AsRoot reports whether a built-in agent is used for a that the root helper may start:
// one that needs root's rights, or becomes another user.
func (b BuiltinAgents) AsRoot(a *pmcdconf.Agent) bool {
	switch {
	case !b.Has(a):
		return false
	case b[b.Entry(a)].root != never:
		return true
	case a.Kind != pmcdconf.Pipe:
		return false
	}
	in, err := b.standIn(a)
	return err == nil && in.User != ""
}

// Sharable reports whether a built-in agent is used for a that can share a process of root
// with others: it always needs root's rights, and its options need no process of its own.
func (b BuiltinAgents) Sharable(a *pmcdconf.Agent) bool {
	if !b.Has(a) || b[b.Entry(a)].root != always {
		return false
	}
	in, err := b.standIn(a)
	return err == nil && !in.NeedsProcess()
}

// standIn returns the stand-in for a, which has the options of a pipe line. The agent has a
// program.
func (b BuiltinAgents) standIn(a *pmcdconf.Agent) (*agentserve.StandIn, error) {
	p := b[b.Entry(a)].program()
	p.Domain = a.Domain
	var args []string
	if a.Kind == pmcdconf.Pipe {
		_, _, args = command(a)
	}
	return agentserve.NewStandIn(p, args)
}

// File returns the file of the line of a: a shared object, "" for a built-in agent, a program,
// or one of PCP's agents in Python, and the interpreter if that does not exist.
func File(a *pmcdconf.Agent) string {
	if a.Kind == pmcdconf.DSO {
		return a.Path
	}
	_, file, _ := command(a)
	return file
}

// lacks returns what a built-in agent cannot do without root's rights.
func (b BuiltinAgents) lacks(a *pmcdconf.Agent, program string) string {
	if program != roothelper.Self {
		return ""
	}
	return cmp.Or(b[b.Entry(a)].lacks, "it cannot do all that it does as root")
}

// NotBuiltIn is what is wrong with a line that says "builtin".
func NotBuiltIn(entry string) error {
	return fmt.Errorf("there is no built-in agent with the entry point %s", entry)
}
