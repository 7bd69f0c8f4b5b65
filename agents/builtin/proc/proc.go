// Package proc is the agent for the processes and control groups of Linux
// (domain 3): what pmdaproc of PCP serves, with the same PMIDs, instances and
// values: proc, hotproc, cgroup and acct. A client that has chosen a container
// gets the processes and control groups of that.
//
// # Tables and formats
//
// Each process has a record of each of its files in /proc, which is read when
// the first value that needs it is asked for, and once in a request: a fetch
// reads nothing of processes and files that the client has not named. Control
// groups are the same.
//
// Processes end at any time. What can no longer be read has no value, which is
// no error.
//
// # Who may see what
//
// As in pmdaproc, clients that pmcd knows the user and the group of have the
// metrics of processes; others have PM_ERR_PERMISSION, but for the numbers of
// proc.nprocs and proc.runq. An agent that is root reads as that user, so the
// kernel decides what there is to see. Another agent sees what its own user
// may see, and keeps what the kernel would only show to that user from clients
// that are neither it nor root.
//
// # Differences
//
// What pmdaproc does otherwise is in comments that start with "C differs".
// Package procfs is not used here: it opens files by os.Open, makes objects of
// each line, drops fields of stat and status and has no cgroups.
package proc

import (
	"context"
	_ "embed"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmdaroot"
)

// Options are how an agent differs from the one that New returns.
type Options struct {
	// Root is the directory that has proc, sys and dev; "" is /. It is another
	// one for a pmcd in a container, and for recorded trees.
	Root string

	// Hertz is the unit of CPU times, in ticks a second; 0 is what the kernel
	// has on all machines that Go knows, 100.
	Hertz uint64

	// PageSize is in bytes; 0 is that of this host.
	PageSize int

	// AllAccess has the agent answer all clients, with what its own user may
	// see (pmdaproc -A). It is insecure.
	AllAccess bool

	// Threads has the agent list threads besides processes, unless a client
	// has another wish (pmdaproc -L, proc.control.all.threads).
	Threads bool

	// Cgroup, if not "", is the directory of a control group, below Root, whose
	// processes alone are listed, unless a client has another wish (pmdaproc -r).
	Cgroup string

	// Pmdaroot is the socket of the pmdaroot that is asked about containers; ""
	// is PCP's.
	Pmdaroot string

	// AccessConf and HotConf are files, "" for those of PCP:
	// $PCP_SYSCONF_DIR/proc/access.conf and $PCP_PMDAS_DIR/proc/hotproc.conf.
	AccessConf, HotConf string

	// Log is for what is wrong with the host; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host. As with pmdaproc, PROC_STATSPATH,
// PROC_HERTZ, PROC_PAGESIZE, PROC_THREADS and PROC_ACCESS in the environment
// have the Root, Hertz, PageSize, Threads and AllAccess of another one.
func New(domain int) (agents.Agent, error) { return Open(domain, FromEnv()) }

// FromEnv returns the Options that New uses.
func FromEnv() Options {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(os.Getenv(name), 10, 31)
		return n
	}
	return Options{
		Root:      os.Getenv("PROC_STATSPATH"),
		Hertz:     number("PROC_HERTZ"),
		PageSize:  int(number("PROC_PAGESIZE")),
		Threads:   number("PROC_THREADS") != 0,
		AllAccess: number("PROC_ACCESS") != 0,
	}
}

// Open returns an agent.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent(help) }

func (h *host) agent(help string) (agents.Agent, error) {
	fixed, subtrees, err := subtrees(h.metrics())
	if err != nil {
		return nil, err
	}
	h.hot.loadConf()
	stopAbandonedAcct(h.acct.privatePath)
	return pmda.New(pmda.Config{
		Name:     "proc",
		Domain:   h.domain,
		Metrics:  fixed,
		Subtrees: subtrees,
		Help:     help,
		Attrs:    true,
		Check:    h.check,
		Done:     h.done,
		Close:    h.close,
		Log:      h.Log,
	})
}

// dynamic are the parts of the name space that the agent has the names of, below
// proc and hotproc: in PCP's PMNS they are 3:*:*.
var dynamic = []string{"psinfo", "memory", "id", "io", "schedstat", "fd", "namespaces", "smaps", "autogroup"}

// subtrees returns metrics without those that are in subtrees.
func subtrees(all []pmda.Metric) (fixed []pmda.Metric, trees []*pmda.Subtree, err error) {
	below := make(map[string][]pmda.Metric)
	for _, m := range all {
		words := strings.Split(m.Name, ".")
		if (words[0] == "proc" || words[0] == "hotproc") && slices.Contains(dynamic, words[1]) {
			below[words[0]] = append(below[words[0]], m)
		} else {
			fixed = append(fixed, m)
		}
	}
	for prefix, ms := range below {
		t := &pmda.Subtree{Prefix: prefix}
		if err := t.Set(ms); err != nil {
			return nil, nil, err
		}
		trees = append(trees, t)
	}
	return fixed, trees, nil
}

//go:embed help.txt
var help string

// A host is what all sources have in common.
type host struct {
	Options
	tree
	domain           int
	access           accessRules
	ownCreds         credentials
	autogroup        bool // the scheduler has groups of sessions
	terminals        terminals
	procs            *processes
	hot              *hotprocs
	acct             *acct
	mounts           *mounts
	mayReadProcesses bool // the client of this request may see processes

	root      pmdaroot.Client
	container *pmda.Source // the following
	cgroup    string       // of the container that the client has chosen, "" for the host
}

// A tree is what processes and groups are read with.
type tree struct {
	sysfile.Reader
	names         *userNames
	hertz         uint64
	pageSize      uint64
	request       uint64    // the number of the present request
	otherUser     bool      // the client may not see what the kernel has for the user of the agent
	impersonating bool      // the thread acts as the client
	effectiveUID  int       // the user that it acts as, else the agent's
	largeRecords  []*record // that were read in this request
	self          int32     // the number of this process, 0 if the tree is not this host's
}

// hidesPrivate reports whether the client may not see what p has for those who may
// trace it, although the kernel would show it to the agent.
func (t *tree) hidesPrivate(p *process) bool {
	switch {
	case t.otherUser:
		return true
	case !t.impersonating || t.self == 0:
		return false
	case p.id == t.self:
		return true // the kernel lets all threads see their process, whoever they are
	}
	return p.threads && t.Path("/proc/").Num(t.self).Str("/task/").Num(p.id).Exists()
}

func newHost(domain int, o Options) *host {
	o.Root = strings.TrimRight(o.Root, "/")
	if o.Hertz == 0 {
		o.Hertz = 100
	}
	if o.PageSize == 0 {
		o.PageSize = os.Getpagesize()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	h := &host{Options: o, domain: domain, root: pmdaroot.Client{Path: o.Pmdaroot}}
	h.container = &pmda.Source{Read: h.readContainer}
	h.tree = tree{
		Reader: sysfile.Reader{Root: o.Root}, names: newUserNames(),
		hertz: o.Hertz, pageSize: uint64(o.PageSize),
	}
	h.access = readAccess(o)
	h.ownCreds = ownCredentials()
	h.effectiveUID = h.ownCreds.uid
	if b, err := h.Path("/proc/self").Link(); err == nil {
		h.self = pidOf(b)
	}
	return h
}

// metrics returns the tables of all sources.
func (h *host) metrics() []pmda.Metric {
	h.mounts, h.procs, h.hot, h.acct = newMounts(h), newProcesses(h), newHotprocs(h), newAcct(h)
	return slices.Concat(
		h.procs.metrics(),
		h.hot.metrics(),
		h.controlMetrics(),
		h.cgroupMetrics(),
		h.acct.metrics(),
	)
}

// check starts a request.
func (h *host) check(_ context.Context, r *pmda.Request) error {
	h.request++
	h.names.refresh()
	h.impersonate(r.Client())
	return nil
}

// done ends a request.
func (h *host) done(*pmda.Request) {
	h.restoreOwn()
	h.releaseLarge()
}

func (h *host) close() error {
	h.hot.stopSampler()
	h.acct.close()
	h.root.Close()
	return nil
}

// msecs returns a time of the kernel in milliseconds.
func (t *tree) msecs(ticks uint64) uint64 { return ticks/t.hertz*1000 + ticks%t.hertz*1000/t.hertz }
