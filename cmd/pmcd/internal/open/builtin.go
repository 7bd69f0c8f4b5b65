package open

import (
	"cmp"
	"fmt"
	"runtime/debug"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/jbd2"
	"github.com/gopcp/pmcd/agents/builtin/kvm"
	"github.com/gopcp/pmcd/agents/builtin/linux"
	"github.com/gopcp/pmcd/agents/builtin/proc"
	"github.com/gopcp/pmcd/agents/builtin/simple"
	"github.com/gopcp/pmcd/agents/builtin/trivial"
	"github.com/gopcp/pmcd/agents/builtin/txmon"
	"github.com/gopcp/pmcd/agents/builtin/xfs"
	"github.com/gopcp/pmcd/agents/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A builtinAgent is compiled in.
type builtinAgent struct {
	// newAgent is its constructor, which waits for nothing.
	newAgent func(domain int) (agents.Agent, error)
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
	"jbd2_init": {newAgent: jbd2.New},
	"kvm_init": {newAgent: kvm.New, root: always, // debugfs is for root
		lacks: "it has no values, which only root may read"},
	"linux_init": {newAgent: linux.New, root: forContainer},
	"proc_init": {newAgent: proc.New, root: always, // it acts as the user of a client
		lacks: "it has no values that only the user of a process may read"},
	"simple_init":  {newAgent: simple.New},
	"trivial_init": {newAgent: trivial.New},
	"txmon_init":   {newAgent: txmon.New},
	"xfs_init": {newAgent: xfs.New, root: always, // quotas, and to reset statistics
		lacks: "it has no quotas and cannot reset statistics"},
}

// Has reports whether an entry point is that of a built-in agent.
func (b BuiltinAgents) Has(entry string) bool { _, ok := b[entry]; return ok }

// NeedsRoot reports whether an entry point is that of an agent which does.
func (b BuiltinAgents) NeedsRoot(entry string) bool { return b[entry].root != never }

// lacks returns what a built-in agent cannot do without root's rights.
func (b BuiltinAgents) lacks(a *pmcdconf.Agent, program string) string {
	if program != roothelper.Self {
		return ""
	}
	return cmp.Or(b[a.Entry].lacks, "it cannot do all that it does as root")
}

// NotBuiltIn is what is wrong with a line that says "builtin".
func NotBuiltIn(entry string) error {
	return fmt.Errorf("no agent that is built in has the entry point %s", entry)
}

// construct calls newAgent. A panic costs that agent only.
func construct(newAgent func(domain int) (agents.Agent, error), domain int) (a agents.Agent, err error) {
	defer func() {
		if v := recover(); v != nil {
			a, err = nil, fmt.Errorf("panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return newAgent(domain)
}
