// Package kvm is the agent for the virtual machines of the Linux kernel
// (domain 95). It serves the metrics of PCP's pmdakvm, with the same PMIDs,
// instances and values:
//
//	kvm          counters in debugfs, for all virtual machines together
//	kvm.trace    counts of trace points, for each CPU
//
// The agent must run as root, because debugfs and perf_event_open(2) require it. An
// agent of another user returns PM_ERR_PERMISSION for the counters and has no
// instances for trace points. If the kernel is locked down (kernel_lockdown(7)), all
// metrics are PM_ERR_PERMISSION.
//
// Comments that start with "C differs" say what pmdakvm does otherwise.
package kvm

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// maxConf is the largest size of kvm.conf, in bytes.
const maxConf = 64 << 10

// Options configure an agent. The zero value is for this host.
type Options struct {
	// Conf is the file kvm.conf; "" is that of PCP, $PCP_PMDAS_DIR/kvm/kvm.conf.
	// Paths in the file override Debugfs, Tracefs and Lockdown.
	Conf string

	// Debugfs and Tracefs are mount points; "" is /sys/kernel/debug and
	// /sys/kernel/debug/tracing. Lockdown is the file that says whether the kernel
	// is locked down; "" is /sys/kernel/security/lockdown. As with pmdakvm, the environment
	// variables KVM_DEBUGFS_PATH, KVM_TRACEFS_PATH and KVM_LOCKDOWN_PATH take the place of
	// these defaults.
	Debugfs, Tracefs, Lockdown string

	// CPUs is the number of possible CPUs; 0 is that in KVM_NCPUS, or else in /sys.
	CPUs int

	// Log gets warnings about the host and the configuration; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host.
func New(domain int) (agents.Agent, error) { return Open(domain, Options{}) }

// Open returns the agent for the host that o describes.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent() }

//go:embed help.txt
var help string

// A host is the configuration and the files that values are read from.
type host struct {
	sysfile.Reader
	conf
	domain int
	locked bool
	trace  *traces
	log    *slog.Logger
}

func newHost(domain int, o Options) *host {
	h := &host{domain: domain, log: cmp.Or(o.Log, slog.Default()).With("agent", "kvm", "domain", domain)}
	if o.Conf == "" {
		dir, _ := pcpconf.Dir("PCP_PMDAS_DIR")
		o.Conf = filepath.Join(dir, "kvm", "kvm.conf")
	}
	b, err := regular.ReadFile(o.Conf, maxConf)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			h.log.Warn("{agent}: using default settings, because kvm.conf cannot be read: {error}", "error", err)
		}
		b = []byte(defaultConf)
	}
	var rejected []string
	h.conf, rejected = parseConf(string(b))
	for _, name := range rejected {
		h.log.Warn("{agent}: {path}: ignoring trace point {name:q}: not a valid name, a duplicate, or too many", "path", o.Conf, "name", name)
	}
	h.debugfs = cmp.Or(h.debugfs, o.Debugfs, os.Getenv("KVM_DEBUGFS_PATH"), "/sys/kernel/debug")
	h.tracefs = cmp.Or(h.tracefs, o.Tracefs, os.Getenv("KVM_TRACEFS_PATH"), "/sys/kernel/debug/tracing")
	h.lockdown = cmp.Or(h.lockdown, o.Lockdown, os.Getenv("KVM_LOCKDOWN_PATH"), "/sys/kernel/security/lockdown")
	_ = h.check(context.Background(), nil)
	if o.CPUs == 0 {
		o.CPUs, _ = strconv.Atoi(os.Getenv("KVM_NCPUS"))
	}
	h.trace = newTraces(h, max(o.CPUs, 0))
	return h
}

// cpus returns the number of possible CPUs of the host.
func (h *host) cpus() (n int) {
	_ = h.Path("/sys/devices/system/cpu").List(func(name []byte, _ byte) {
		if len(name) > 3 && string(name[:3]) == "cpu" {
			if i, ok := sysfile.Uint(name[3:]); ok && i < maxCPUs {
				n = max(n, int(i)+1)
			}
		}
	})
	return n
}

func (h *host) agent() (agents.Agent, error) {
	fixed, tree := h.metrics()
	return pmda.New(pmda.Config{
		Name:     "kvm",
		Domain:   h.domain,
		Metrics:  fixed,
		Subtrees: []*pmda.Subtree{tree},
		Help:     help,
		Check:    h.check,
		Close:    h.trace.close,
		Log:      h.log,
	})
}

// counters are the files below kvm in debugfs, by item. No kernel has all of them.
var counters = []string{
	"efer_reload", "exits", "fpu_reload", "halt_attempted_poll", "halt_exits", "halt_successful_poll", "halt_wakeup",
	"host_state_reload", "hypercalls", "insn_emulation", "insn_emulation_fail", "invlpg", "io_exits", "irq_exits", "irq_injections",
	"irq_window", "largepages", "mmio_exits", "mmu_cache_miss", "mmu_flooded", "mmu_pde_zapped", "mmu_pte_updated", "mmu_pte_write",
	"mmu_recycled", "mmu_shadow_zapped", "mmu_unsync", "nmi_injections", "nmi_window", "pf_fixed", "pf_guest", "remote_tlb_flush",
	"request_irq", "signal_exits", "tlb_flush", "irq_window_exits", "nmi_window_exits", "l1d_flush", "request_irq_exits", "req_event",
	"nested_run", "directed_yield_attempted", "directed_yield_successful", "guest_mode",
}

// metrics returns the fixed metrics, and the subtree kvm.trace, which depends on
// kvm.conf.
func (h *host) metrics() (fixed []pmda.Metric, trace *pmda.Subtree) {
	for i, name := range counters {
		m := pmda.Metric{Item: i, Name: "kvm." + name, Type: pdu.MetricU64, Sem: pdu.SemCounter, Units: pdu.Count}
		if slices.Contains([]string{"largepages", "guest_mode"}, name) {
			m.Sem = pdu.SemInstant
		}
		m.Fetch = func(_ context.Context, v *pmda.Value) error { return h.counter(v, name) }
		fixed = append(fixed, m)
	}
	return fixed, h.trace.subtree()
}

// counter reads a file of debugfs.
//
// C differs: the value is 0 if the file does not exist, or if the agent may not read
// it.
func (h *host) counter(v *pmda.Value, name string) error {
	if h.locked {
		return pdu.ErrnoPermission
	}
	b, err := h.Path(h.debugfs).Str("/kvm/").Str(name).Text(64)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return pdu.ErrnoPermission
	case err != nil:
		return nil
	}
	line, _ := sysfile.CutLine(b)
	word, _ := sysfile.Field(line)
	if n, ok := sysfile.Uint(word); ok {
		v.SetUint(n)
	}
	return nil
}

// check is called at the start of a request. A kernel that is locked down remains so.
func (h *host) check(context.Context, *pmda.Request) error {
	if !h.locked && h.isLocked() {
		h.locked = true
		h.log.Warn("{agent}: the kernel is locked down (kernel_lockdown(7)), so all metrics return PM_ERR_PERMISSION")
	}
	return nil
}

// isLocked reports whether the kernel is locked down, kernel_lockdown(7). The file
// has the present mode in brackets:
//
//	none [integrity] confidentiality
func (h *host) isLocked() bool {
	b, _ := h.Path(h.lockdown).Text(4096)
	return isLocked(b)
}
