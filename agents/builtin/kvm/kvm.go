// Package kvm is the agent for the virtual machines of the Linux kernel
// (domain 95): what pmdakvm of PCP serves, with the same PMIDs, instances and
// values:
//
//	kvm          counters of debugfs, for all machines together
//	kvm.trace    how often trace points were passed, by CPU
//
// Both are for root alone, as debugfs and perf_event_open(2) are: an agent of
// another user answers PM_ERR_PERMISSION for the first and has no instances for
// the second. So it is where the kernel is locked down, kernel_lockdown(7).
//
// What pmdakvm does otherwise is in comments that start with "C differs".
package kvm

import (
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
)

// Options are how an agent differs from the one that New returns.
type Options struct {
	// Conf is the file kvm.conf; "" is that of PCP, $PCP_PMDAS_DIR/kvm/kvm.conf.
	// What it says of paths comes before Debugfs, Tracefs and Lockdown.
	Conf string

	// Debugfs and Tracefs are where the kernel's file systems are, "" for
	// /sys/kernel/debug and /sys/kernel/debug/tracing. Lockdown says whether
	// they may be used, "" for /sys/kernel/security/lockdown.
	Debugfs, Tracefs, Lockdown string

	// CPUs is how many there may be; 0 is what /sys says.
	CPUs int

	// Log is for what is wrong with the host; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host. As with pmdakvm, KVM_DEBUGFS_PATH,
// KVM_TRACEFS_PATH, KVM_LOCKDOWN_PATH and KVM_NCPUS in the environment are
// Options.
func New(domain int) (agents.Agent, error) { return Open(domain, FromEnv()) }

// FromEnv returns the Options that New uses.
func FromEnv() Options {
	n, _ := strconv.Atoi(os.Getenv("KVM_NCPUS"))
	return Options{
		Debugfs: os.Getenv("KVM_DEBUGFS_PATH"), Tracefs: os.Getenv("KVM_TRACEFS_PATH"),
		Lockdown: os.Getenv("KVM_LOCKDOWN_PATH"), CPUs: n,
	}
}

// Open returns an agent.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent() }

//go:embed help.txt
var help string

// A host is the files that values come from.
type host struct {
	sysfile.Reader
	conf
	domain int
	locked bool
	trace  *traces
	log    *slog.Logger
}

func newHost(domain int, o Options) *host {
	h := &host{domain: domain, log: o.Log}
	if h.log == nil {
		h.log = slog.Default()
	}
	if o.Conf == "" {
		dir := os.Getenv("PCP_PMDAS_DIR")
		if dir == "" {
			dir = "/var/lib/pcp/pmdas"
		}
		o.Conf = filepath.Join(dir, "kvm", "kvm.conf")
	}
	b, err := os.ReadFile(o.Conf)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			h.log.Warn("kvm: " + err.Error())
		}
		b = []byte(defaultConf)
	}
	var rejected []string
	h.conf, rejected = parseConf(string(b))
	for _, name := range rejected {
		h.log.Warn("kvm: " + o.Conf + ": " + strconv.Quote(name) + " is no name for a metric")
	}
	setDefault := func(path *string, others ...string) {
		for _, s := range others {
			if *path == "" {
				*path = s
			}
		}
	}
	setDefault(&h.debugfs, o.Debugfs, "/sys/kernel/debug")
	setDefault(&h.tracefs, o.Tracefs, "/sys/kernel/debug/tracing")
	setDefault(&h.lockdown, o.Lockdown, "/sys/kernel/security/lockdown")
	if h.locked = h.isLocked(); h.locked {
		h.log.Warn("kvm: no metrics, because the kernel is locked down")
	}
	if o.CPUs <= 0 {
		o.CPUs = h.cpus()
	}
	h.trace = newTraces(h, o.CPUs)
	return h
}

// cpus returns how many CPUs the host may have.
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
		Close:    h.trace.close,
		Log:      h.log,
	})
}

// counters are the files below kvm in debugfs, by items. Kernels have most, but
// not all of them.
var counters = []string{
	"efer_reload", "exits", "fpu_reload", "halt_attempted_poll", "halt_exits", "halt_successful_poll", "halt_wakeup",
	"host_state_reload", "hypercalls", "insn_emulation", "insn_emulation_fail", "invlpg", "io_exits", "irq_exits", "irq_injections",
	"irq_window", "largepages", "mmio_exits", "mmu_cache_miss", "mmu_flooded", "mmu_pde_zapped", "mmu_pte_updated", "mmu_pte_write",
	"mmu_recycled", "mmu_shadow_zapped", "mmu_unsync", "nmi_injections", "nmi_window", "pf_fixed", "pf_guest", "remote_tlb_flush",
	"request_irq", "signal_exits", "tlb_flush", "irq_window_exits", "nmi_window_exits", "l1d_flush", "request_irq_exits", "req_event",
	"nested_run", "directed_yield_attempted", "directed_yield_successful", "guest_mode",
}

// metrics returns those that are always there, and kvm.trace.
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
// C differs: it has 0 for files that are not there, and for all of them if it
// may not read them.
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
		v.Uint(n)
	}
	return nil
}

// isLocked reports whether the kernel keeps root from its memory,
// kernel_lockdown(7): the file has
//
//	none [integrity] confidentiality
func (h *host) isLocked() bool {
	b, _ := h.Path(h.lockdown).Text(4096)
	return isLocked(b)
}
