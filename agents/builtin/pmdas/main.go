// Pmdas is the built-in agents as PMDAs (PMDA(3)): programs that any pmcd can start. It is one
// program, and a link to it for each agent has the name of PCP's program. In pmcd.conf the agent
// simple is
//
//	simple  253  pipe  binary  /usr/libexec/pcp/pmdas/pmdasimple -d 253
//
// A program of its own is pmdaopenmetrics: net/http does not belong in the PMDAs that run as root.
package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	"github.com/gopcp/pmcd/agents/serve"
)

// programs are the agents by the base name of argv[0]. Makefile and release.sh read the
// names from these lines, for the links.
var programs = map[string]func() serve.Program{
	"pmdacifs":      cifs.Program,
	"pmdajbd2":      jbd2.Program,
	"pmdakvm":       kvm.Program,
	"pmdalinux":     linux.Program,
	"pmdammv":       mmv.Program,
	"pmdanfsclient": nfsclient.Program,
	"pmdapmimport":  pmimport.Program,
	"pmdapmproxy":   mmv.PMProxyProgram,
	"pmdaproc":      proc.Program,
	"pmdaroot":      rootProgram,
	"pmdasimple":    simple.Program,
	"pmdatrace":     trace.Program,
	"pmdatrivial":   trivial.Program,
	"pmdatxmon":     txmon.Program,
	"pmdaxfs":       xfs.Program,
}

func main() {
	var name string
	if len(os.Args) > 0 { // execve(2) allows none
		name = filepath.Base(os.Args[0])
	}
	program, ok := programs[name]
	if !ok {
		usage(os.Stderr, name)
		os.Exit(1)
	}
	serve.Main(program())
}

// usage says what a program is that was called by a name that is not an agent's.
func usage(w io.Writer, name string) {
	fmt.Fprintf(w, `%s: this program is the built-in agents of pmcd as PMDAs. The name by which it is
called says which one. Call it by a link of one of these names, as in pmcd.conf:
    simple  253  pipe  binary  /usr/libexec/pcp/pmdas/pmdasimple -d 253
Names: %s
`, name, strings.Join(slices.Sorted(maps.Keys(programs)), " "))
}

// rootProgram is that of package root, which runs without root's rights only in pmcd.
func rootProgram() serve.Program {
	p := root.Program()
	open := p.New
	p.New = func(s serve.Start) (agents.Agent, error) {
		if os.Geteuid() != 0 {
			return nil, errors.New("must be run as root")
		}
		return open(s)
	}
	return p
}
