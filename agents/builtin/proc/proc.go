// Package proc is the agent for the processes and control groups of Linux
// (domain 3). It serves the metrics of PCP's pmdaproc, with the same PMIDs,
// instances and values: proc, hotproc, cgroup and acct. A client that has chosen a
// container gets the processes and control groups of that container.
//
// # Tables and formats
//
// Each process has a record for each of its files in /proc. The file is read when
// a fetch needs the first value from it, and at most once in a request: a fetch
// does not read files of processes and metrics that the client has not asked for.
// The files of control groups are read in the same way.
//
// Processes end at any time. A file that can no longer be read gives no value,
// and no error.
//
// # Access
//
// As in pmdaproc, a client gets the metrics of processes if pmcd knows its user
// and group. Other clients get PM_ERR_PERMISSION, except for the counts in
// proc.nprocs and proc.runq. An agent that runs as root assumes the client's user
// and group while it reads, so the kernel decides what the client sees. An agent
// that runs as another user reads as that user. It shows files that the kernel
// restricts to the owner of a process only to clients of its own user and to root.
//
// # Differences
//
// Comments that start with "C differs" say what pmdaproc does otherwise.
//
// The module github.com/prometheus/procfs is not used: it opens files with
// os.Open, allocates objects for each line, drops fields of stat and status, and
// does not read cgroups.
package proc

import (
	"cmp"
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
	"github.com/gopcp/pmcd/internal/pmdaroot"
	"github.com/gopcp/pmcd/pdu"
)

// Options configure an agent. The zero value is for this host.
type Options struct {
	// Root is the directory that has proc, sys and dev; "" is /. A pmcd in a
	// container sets it to where the host's directories are mounted, and tests set
	// it to a recorded tree.
	Root string

	// Hertz is the unit of CPU times, in ticks a second. 0 is 100, the value of
	// the kernel on all machines that Go supports.
	Hertz uint64

	// PageSize is in bytes; 0 is that of this host.
	PageSize int

	// AllAccess shows all that the agent's user may see to all clients (pmdaproc
	// -A). It is insecure.
	AllAccess bool

	// Threads lists threads besides processes, unless a client has stored another
	// setting (pmdaproc -L, proc.control.all.threads).
	Threads bool

	// Cgroup, if not "", is the directory of a control group, below Root. Only its
	// processes are listed, unless a client has stored another setting (pmdaproc
	// -r).
	Cgroup string

	// Pmdaroot is the socket of the pmdaroot that knows the containers; "" is
	// PCP's.
	Pmdaroot string

	// AccessConf and HotConf are files; "" is that of PCP,
	// $PCP_SYSCONF_DIR/proc/access.conf and $PCP_PMDAS_DIR/proc/hotproc.conf.
	AccessConf, HotConf string

	// Log gets warnings about the host and the configuration; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host. As with pmdaproc, the environment variables
// PROC_STATSPATH, PROC_HERTZ, PROC_PAGESIZE, PROC_THREADS and PROC_ACCESS set Root,
// Hertz, PageSize, Threads and AllAccess.
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

// Open returns the agent for the host that o describes.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent(help) }

func (h *host) agent(help string) (agents.Agent, error) {
	fixed, subtrees, err := subtrees(h.metrics())
	if err != nil {
		return nil, err
	}
	h.hot.loadConf()
	stopAbandonedAcct(h.acct.privatePath)
	return pmda.New(pmda.Config{
		Name:      "proc",
		Domain:    h.domain,
		Metrics:   fixed,
		Subtrees:  subtrees,
		Help:      help,
		WantAttrs: true,
		Check:     h.check,
		Done:      h.done,

		BeforeFetch: h.beforeFetch,
		Close:       h.close,
		Log:         h.Log,
	})
}

// dynamic are the subtrees of proc and hotproc whose names come from the agent: in
// PCP's PMNS they are 3:*:*.
var dynamic = []string{"psinfo", "memory", "id", "io", "schedstat", "fd", "namespaces", "smaps", "autogroup", "fdinfo", "delayacct", "numa_maps"}

// subtrees divides the metrics into those with names in the PMNS and the dynamic
// subtrees.
func subtrees(all []pmda.Metric) (fixed []pmda.Metric, trees []*pmda.Subtree, err error) {
	// They are sorted and not copied, because a row is large.
	slices.SortStableFunc(all, func(a, b pmda.Metric) int { return strings.Compare(dynamicRoot(a.Name), dynamicRoot(b.Name)) })
	for len(all) > 0 {
		name, n := dynamicRoot(all[0].Name), 1
		for n < len(all) && dynamicRoot(all[n].Name) == name {
			n++
		}
		ms := all[:n:n]
		all = all[n:]
		if name == "" {
			fixed = ms
			continue
		}
		t := &pmda.Subtree{Prefix: name}
		if err := t.Set(ms); err != nil {
			return nil, nil, err
		}
		trees = append(trees, t)
	}
	return fixed, trees, nil
}

// dynamicRoot returns the root of the dynamic subtree that a metric is in, "" for a name in the PMNS.
func dynamicRoot(metric string) string {
	first, rest, _ := strings.Cut(metric, ".")
	second, _, _ := strings.Cut(rest, ".")
	if (first == "proc" || first == "hotproc") && slices.Contains(dynamic, second) {
		return first
	}
	return ""
}

//go:embed help.txt
var help string

// A host is the state that all sources share.
type host struct {
	Options
	tree
	domain           int
	access           accessRules
	ownCreds         credentials
	autogroup        bool // the scheduler groups processes by session
	terminals        terminals
	taskstats        *taskstats
	procs            *processes
	hot              *hotprocs
	acct             *acct
	mounts           *mounts
	mayReadProcesses bool // the client of this request may see processes

	root      pmdaroot.Client
	container *pmda.Source // reads cgroup
	cgroup    string       // of the container that the client has chosen, "" for the host
}

func newHost(domain int, o Options) *host {
	o.Root = strings.TrimRight(o.Root, "/")
	o.Hertz, o.PageSize = cmp.Or(o.Hertz, 100), cmp.Or(o.PageSize, os.Getpagesize())
	o.Log = cmp.Or(o.Log, slog.Default()).With("agent", "proc", "domain", domain)
	h := &host{Options: o, domain: domain, root: pmdaroot.Client{Path: o.Pmdaroot}}
	h.container = &pmda.Source{Read: h.readContainer}
	h.tree = tree{
		Reader: sysfile.Reader{Root: o.Root}, names: newUserNames(),
		hertz: o.Hertz, pageSize: uint64(o.PageSize), maxFDs: maxFDs,
	}
	h.access = readAccess(o)
	h.ownCreds = ownCredentials()
	h.effectiveUID = h.ownCreds.uid
	if b, err := h.Path("/proc/self").Link(); err == nil {
		h.self = pidOf(b)
	}
	h.taskstats = newTaskstats()
	if h.self == int32(os.Getpid()) {
		h.delays = h.taskstats.of
	}
	return h
}

// metrics returns the metrics of all sources.
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

// check is called at the start of a request.
func (h *host) check(_ context.Context, r *pmda.Request) error {
	h.request++
	h.current = r
	if h.names.refresh() {
		h.terminals = terminals{} // a driver may have come since
	}
	h.impersonate(r.Client())
	return nil
}

// beforeFetch finds out which files of processes the fetch needs.
func (h *host) beforeFetch(_ context.Context, _ *pmda.Request, ids []pdu.PMID) error {
	h.procs.indom.begin(ids)
	h.hot.indom.begin(ids)
	return nil
}

// done is called at the end of a request.
func (h *host) done(*pmda.Request) {
	h.restoreOwn()
	h.procs.indom.release()
	h.hot.indom.release()
	h.taskstats.close()
}

func (h *host) close() error {
	h.hot.stopSampler()
	h.acct.close()
	h.root.Close()
	return nil
}
