// Package linux is the agent for the Linux kernel (domain 60): what pmdalinux
// of PCP serves, with the same PMIDs, instances and values:
//
//	kernel, mem, swap, swapdev, vfs, ipc, tty, pmda, sysfs
//	disk, zram, filesys, tmpfs, tape, fchost
//	network, nfs, nfs3, nfs4, rpc
//	hinv
//
// # Tables and sources
//
// A file of this package has what comes from one file of the kernel: a reader,
// its Source, and a table with a row a metric. A fetch reads only the files that
// its metrics need, each once. Files of /proc stay open, and so do directories
// of devices in /sys, see sysfile.Device.
//
// A source that is not there, as on other kernels, means metrics without
// values; or 0, where pmdalinux has that. A line that is broken means no values
// for its own metrics only.
//
// # Containers
//
// A client that has chosen a container gets the networks, file systems and host
// name of that, and all else of the host: see [Options.Pmdaroot]. It takes root.
//
// # Differences
//
// Package procfs is used where it has all of a source that is small, or that
// few ask for: sockstat, softnet_stat, buddyinfo. Elsewhere it opens files anew,
// makes objects of every line, fails at a broken one, gives counters as floating
// point numbers, has no order of interfaces and lacks files and fields. What
// pmdalinux does otherwise is in comments that start with "C differs".
package linux

import (
	"context"
	_ "embed"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"

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

	// Hertz is the unit of CPU times in /proc/stat, in ticks a second; 0 is
	// what the kernel has on all machines that Go knows, 100.
	Hertz uint64

	// PageSize is in bytes; 0 is that of this host.
	PageSize int

	// CacheDir has the files with the ids of instances, see package cache; "" is
	// the one of PCP, $PCP_VAR_DIR/config/pmda. If it cannot be used, ids last
	// as long as the agent.
	CacheDir string

	// ConfDir has linux/interfaces.conf, which says what network.all is not the
	// sum of; "" is PCP's, $PCP_SYSCONF_DIR.
	ConfDir string

	// Access lets clients see what else only those of root see: slab caches
	// and serial lines. As with pmdalinux, a client whose user is not known is
	// not root.
	Access bool

	// Pmdaroot is the socket of the pmdaroot that is asked about containers; ""
	// is PCP's. Whoever is not root gets no answer.
	Pmdaroot string

	// Log is for what is wrong with the host; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host. As with pmdalinux, LINUX_STATSPATH,
// LINUX_HERTZ, LINUX_PAGESIZE and LINUX_ACCESS in the environment have the
// Root, Hertz, PageSize and Access of another one.
func New(domain int) (agents.Agent, error) {
	number := func(name string) uint64 {
		n, _ := strconv.ParseUint(os.Getenv(name), 10, 31)
		return n
	}
	return Open(domain, Options{
		Root:     os.Getenv("LINUX_STATSPATH"),
		Hertz:    number("LINUX_HERTZ"),
		PageSize: int(number("LINUX_PAGESIZE")),
		Access:   number("LINUX_ACCESS") != 0,
	})
}

// Open returns an agent.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent() }

func (h *host) config() pmda.Config {
	return pmda.Config{
		Name:    "linux",
		Domain:  h.domain,
		Metrics: h.metrics(),
		Attrs:   true,
		Check:   h.check,
		Done:    h.done,
		Log:     h.Log,
		Close:   h.close,
	}
}

//go:embed help.txt
var help string

// A host is what all sources have in common.
type host struct {
	Options
	domain        int
	container     *container      // whose view this is; nil for the host's
	hostReader    *sysfile.Reader // of the host; a generation is a request
	viewReader    *sysfile.Reader // of the host, or of the container; see refreshNet
	netGeneration uint64          // the number of the generation of viewReader
	netChange     *pmda.Source    // has refreshNet called, before viewReader is used
	files         []*sysfile.File
	links         linkWatch
	rtnl          netlink
	guard         *timeoutGuard // for file systems
	rootClient    *pmdaroot.Client
	ipv4          func(f func(ipv4)) error // rtnl.each, but for containers and tests
}

func newHost(domain int, o Options) *host {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Hertz == 0 {
		o.Hertz = 100
	}
	if o.PageSize == 0 {
		o.PageSize = os.Getpagesize()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	h := &host{
		Options: o, domain: domain,
		hostReader: &sysfile.Reader{Root: o.Root}, viewReader: &sysfile.Reader{Root: o.Root, Renames: true},
		guard: newTimeoutGuard(), rootClient: &pmdaroot.Client{Path: o.Pmdaroot},
	}
	h.netChange = &pmda.Source{Read: h.refreshNet}
	h.ipv4 = h.rtnl.each
	return h
}

// forContainer returns the host as it is in a container.
func (h *host) forContainer(c *container) *host {
	inner := newHost(h.domain, h.Options)
	inner.container, inner.hostReader, inner.viewReader, inner.rootClient = c, h.hostReader, &sysfile.Reader{Open: c.open}, h.rootClient
	c.guard = inner.guard
	inner.ipv4 = func(f func(ipv4)) error {
		return c.inNetworkNamespace(func() error {
			defer inner.rtnl.close() // as long as it is open, the network stays
			return inner.rtnl.each(f)
		})
	}
	return inner
}

// metrics returns the tables of all sources.
func (h *host) metrics() []pmda.Metric {
	stat, mem, interfaces := newStat(h), newMeminfo(h), newInterfaces(h)
	return slices.Concat(
		newLoad(h).metrics(),
		stat.metrics(),
		mem.metrics(),
		diskMetrics(h),
		newFilesystems(h).metrics(),
		rpcMetrics(h),
		newNFSD(h).metrics(),
		tapeMetrics(h),
		fcHostMetrics(h),
		interfaces.metrics(),
		interfaces.allMetrics(),
		newAddresses(h).metrics(),
		snmpMetrics(h),
		snmp6Metrics(h),
		netstatMetrics(h),
		socketMetrics(h),
		sockstatMetrics(h),
		newSoftnet(h, stat).metrics(),
		newNodes(h).metrics(stat, mem),
		newCPUInfo(h, stat).metrics(),
		newCPUFiles(h, stat).metrics(),
		machineMetrics(h),
		newUptime(h).metrics(),
		newUtmp(h).metrics(),
		sysctlMetrics(h),
		newLocks(h).metrics(),
		pressureMetrics(h),
		newVmstat(h).metrics(),
		interruptMetrics(h, stat),
		softIRQMetrics(h, stat),
		newZones(h).metrics(),
		newBuddies(h).metrics(),
		newSlabs(h).metrics(),
		newSwaps(h).metrics(),
		newSerials(h).metrics(),
		newSCSI(h).metrics(),
		ksmMetrics(h),
		semMetrics(h),
		msgMetrics(h),
		shmMetrics(h),
		ipcLimits(h),
	)
}

// mayReadRootOnly reports whether the client may see what only root may read.
func (h *host) mayReadRootOnly(r *pmda.Request) bool {
	if h.Access {
		return true
	}
	c := r.Client()
	if c == nil {
		return false
	}
	uid, ok := c.UID()
	return ok && uid == 0
}

// file returns a file below the root.
func (h *host) file(path string) *sysfile.File {
	f := sysfile.NewFile(h.path(path))
	h.files = append(h.files, f)
	return f
}

// netFile returns a file of /proc/net, which each network has.
func (h *host) netFile(name string) *sysfile.File {
	if h.container == nil {
		return h.file("proc/net/" + name)
	}
	return h.file(h.container.proc + "/net/" + name)
}

func (h *host) path(path string) string { return filepath.Join(h.Root, path) }

// check starts a request.
func (h *host) check(context.Context, *pmda.Request) error {
	h.hostReader.Begin()
	if h.container != nil {
		return h.container.begin()
	}
	h.guard.begin()
	return nil
}

// done ends a request: nothing of a container stays open.
func (h *host) done(*pmda.Request) {
	if h.container != nil {
		_ = h.close()
		h.container.end()
	}
}

func (h *host) close() error {
	if h.container == nil {
		h.hostReader.Close()
		h.rootClient.Close()
	}
	h.viewReader.Close()
	h.links.close()
	h.rtnl.close()
	for _, f := range h.files {
		f.Close()
	}
	return nil
}
