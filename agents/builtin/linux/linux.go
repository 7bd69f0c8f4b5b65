// Package linux is the agent for the Linux kernel (domain 60). It has the metrics
// of PCP's pmdalinux, with the same PMIDs, instances and values:
//
//	kernel, mem, swap, swapdev, vfs, ipc, tty, pmda, sysfs, hyperv
//	disk, zram, filesys, tmpfs, tape, fchost
//	network, nfs, nfs3, nfs4, rpc
//	hinv
//
// # Tables and sources
//
// A file of this package serves one file of the kernel: it has a reader, its
// pmda.Source, and a table with a row for each metric. Its name begins with the
// subject: cpu, disk, fs, hw, ipc, kernel, mem, net or nfs. All of them share
// linux.go (options and host), table.go, instances.go, timeout_guard.go,
// container.go, container_views.go, and file_*.go for formats that several files
// of the kernel have.
//
// A fetch reads only the files that its metrics need, each once. Files of /proc
// stay open, and so do directories of devices in /sys, see sysfile.Device.
//
// If a source does not exist, as on other kernels, its metrics have no values, or
// 0 where pmdalinux has 0. A malformed line leaves only its own metrics without
// values.
//
// # Containers
//
// A client that has chosen a container gets the networks, file systems and host
// name of the container, and everything else of the host: see [Options.Pmdaroot].
// The agent must run as root for this.
//
// # Differences
//
// Package procfs reads sources that it supports fully and that are small or
// rarely fetched: sockstat, buddyinfo. It is not used for others,
// because it opens files anew, allocates objects for every line, fails at a
// malformed line, returns counters as floating-point numbers, loses the order of
// interfaces, and lacks files and fields. Comments that start with "C differs"
// say where pmdalinux behaves differently.
package linux

import (
	"context"
	_ "embed"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/pmdaroot"
)

// Options configure an agent. The zero value is an agent for this host.
type Options struct {
	// Root is the directory that has proc, sys and dev; "" is /. A pmcd in a
	// container, or a test with a recorded tree, has another one.
	Root string

	// Hertz is the unit of CPU times in /proc/stat, in ticks a second; 0 is 100,
	// which the kernel has on all machines that Go supports.
	Hertz uint64

	// PageSize is in bytes; 0 is the page size of this host.
	PageSize int

	// CacheDir has the files with the ids of instances, see package cache; "" is
	// PCP's directory, $PCP_VAR_DIR/config/pmda. If it cannot be used, ids may
	// change at a restart of the agent.
	CacheDir string

	// ConfDir has linux/interfaces.conf, which says which interfaces network.all
	// does not count; "" is PCP's directory, $PCP_SYSCONF_DIR.
	ConfDir string

	// Access gives all clients the metrics that otherwise only clients of root
	// get: slab caches and serial lines. As with pmdalinux, a client whose user
	// is not known does not count as root.
	Access bool

	// Pmdaroot is the socket of the pmdaroot that knows the containers; "" is
	// PCP's. It replies to root only.
	Pmdaroot string

	// Log receives warnings; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host. As with pmdalinux, the environment
// variables LINUX_STATSPATH, LINUX_HERTZ, LINUX_PAGESIZE and LINUX_ACCESS set
// Options.Root, Hertz, PageSize and Access.
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

// Open returns an agent with options.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent() }

func (h *host) config() pmda.Config {
	return pmda.Config{
		Name:      "linux",
		Domain:    h.domain,
		Metrics:   h.metrics(),
		WantAttrs: true,
		Check:     h.check,
		Done:      h.done,
		Log:       h.Log,
		Close:     h.close,
	}
}

//go:embed help.txt
var help string

// A host has the state that all sources share. A container has a host of its own,
// see forContainer.
type host struct {
	Options
	domain        int
	container     *container      // nil in the view of the host
	hostReader    *sysfile.Reader // reads files of the host; its generation is a request
	viewReader    *sysfile.Reader // reads files of the host or of the container, see refreshNet
	netGeneration uint64          // of viewReader
	netChange     *pmda.Source    // calls refreshNet; is read before any use of viewReader
	files         []*sysfile.File
	links         linkWatch
	rtnl          netlink
	guard         *timeoutGuard // for calls that use file systems
	request       *pmda.Request // the present one, see ended
	rootClient    *pmdaroot.Client
	ipv4          func(f func(ipv4)) error // rtnl.each, except in containers and tests
	eachLink      func(f func(link)) error // rtnl.eachLink, except in containers; nil for a recorded host
	ioctlSocket   int                      // see ethtoolMode; 0 if it is not open
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
	o.Log = o.Log.With("agent", "linux", "domain", domain)
	h := &host{
		Options: o, domain: domain,
		hostReader: &sysfile.Reader{Root: o.Root}, viewReader: &sysfile.Reader{Root: o.Root, Renames: true},
		guard: newTimeoutGuard(), rootClient: &pmdaroot.Client{Path: o.Pmdaroot},
	}
	h.netChange = &pmda.Source{Read: h.refreshNet}
	h.ipv4 = h.rtnl.each
	if o.Root == "/" {
		h.eachLink = h.rtnl.eachLink
	}
	return h
}

// forContainer returns the host as seen in container c.
func (h *host) forContainer(c *container) *host {
	inner := newHost(h.domain, h.Options)
	inner.Log = h.Log
	inner.container, inner.hostReader, inner.viewReader, inner.rootClient = c, h.hostReader, &sysfile.Reader{Open: c.open}, h.rootClient
	inner.guard.timeout = h.guard.timeout
	c.guard = inner.guard
	inner.ipv4 = func(f func(ipv4)) error {
		return c.inNetworkNamespace(func() error {
			defer inner.rtnl.close() // an open socket would keep the name space alive
			return inner.rtnl.each(f)
		})
	}
	if h.eachLink != nil {
		inner.eachLink = func(f func(link)) error {
			return c.inNetworkNamespace(func() error {
				defer inner.rtnl.close()
				return inner.rtnl.eachLink(f)
			})
		}
	}
	return inner
}

// metrics returns the tables of all sources.
func (h *host) metrics() []pmda.Metric {
	stat, mem, interfaces, nodes := newStat(h), newMeminfo(h), newInterfaces(h), newNodes(h)
	return slices.Concat(
		newLoad(h).metrics(),
		stat.metrics(),
		mem.metrics(),
		diskMetrics(h),
		newFilesystems(h).metrics(),
		rpcMetrics(h),
		newNFSD(h).metrics(),
		newNFSClients(h).metrics(),
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
		nodes.metrics(stat, mem),
		newCPUInfo(h, stat).metrics(),
		newCPUFiles(h, stat).metrics(),
		machineMetrics(h),
		newUptime(h).metrics(),
		newLogins(h).metrics(),
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
		newHugePages(h, nodes).metrics(),
		zswapMetrics(h),
		balloonMetrics(h),
		semMetrics(h),
		msgMetrics(h),
		shmMetrics(h),
		ipcLimits(h),
	)
}

// mayReadRootOnly reports whether the client gets metrics of files that only root
// may read.
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

// file returns the file with a path relative to the root.
func (h *host) file(path string) *sysfile.File {
	f := sysfile.NewFile(h.path(path))
	h.files = append(h.files, f)
	return f
}

// netFile returns a file of /proc/net, of the network name space of the view.
func (h *host) netFile(name string) *sysfile.File {
	if h.container == nil {
		return h.file("proc/net/" + name)
	}
	return h.file(h.container.proc + "/net/" + name)
}

func (h *host) path(path string) string { return filepath.Join(h.Root, path) }

// check starts a request.
func (h *host) check(_ context.Context, r *pmda.Request) error {
	h.request = r
	h.hostReader.Begin()
	if h.container != nil {
		return h.container.begin()
	}
	h.guard.begin()
	return nil
}

// ended is called for each item of what may be long, on the goroutine that handles
// the request. It returns the error of Request.Err.
func (h *host) ended() error {
	if h.request == nil {
		return nil // a test
	}
	return h.request.Err()
}

// done ends a request. No file of a container stays open.
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
	if h.ioctlSocket != 0 {
		syscall.Close(h.ioctlSocket)
		h.ioctlSocket = 0
	}
	for _, f := range h.files {
		f.Close()
	}
	return nil
}
