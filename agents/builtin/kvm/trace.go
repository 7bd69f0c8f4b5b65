package kvm

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
	"golang.org/x/sys/unix"
)

// maxCPUs is the largest number of CPUs that are counted on. It is above the
// kernel's limit (NR_CPUS).
const maxCPUs = 1 << 16

// traces are the trace points below events/kvm in tracefs. From the first fetch on
// the kernel counts them on each CPU. The counts begin again if the trace points or the CPUs that
// are online change: kvm is a module, and tracefs may be mounted later.
type traces struct {
	*host
	cpus      int       // possible ones; 0 if they are not known yet
	ids       []uint64  // of the trace points that are counted, 0 for one that the kernel does not have
	online    []byte    // the CPUs that were online
	failed    time.Time // of the last attempt; zero if it was successful
	warned    bool      // of failures since the last success
	index     []int     // for each trace point, its index in a group; -1 if the kernel does not have it
	groupFDs  []int     // for each instance, the descriptor of its group's leader
	instances pmda.List
	values    [][]byte // for each instance, the counters; empty if the read failed
	buf       []byte

	// System calls, which tests replace.
	perfOpen func(id uint64, cpu, group int) (fd int, err error)
	perfRead func(fd int, b []byte) (int, error)
	now      func() time.Time
	fds      []int // all open descriptors
}

// retryTime is how long the agent waits after it could not open the counters.
const retryTime = time.Minute

func newTraces(h *host, cpus int) *traces {
	return &traces{host: h, cpus: min(cpus, maxCPUs), perfOpen: perfEventOpen, perfRead: syscall.Read, now: time.Now}
}

// perfEventOpen opens the counter of a trace point on one CPU. group is the
// descriptor of the group's leader, or -1 for a new group.
func perfEventOpen(id uint64, cpu, group int) (fd int, err error) {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_TRACEPOINT, Config: id, Read_format: unix.PERF_FORMAT_GROUP}
	attr.Size = uint32(unsafe.Sizeof(attr))
	return unix.PerfEventOpen(&attr, -1, cpu, group, unix.PERF_FLAG_FD_CLOEXEC)
}

// update opens the counters, unless those are open that the host has.
func (t *traces) update() {
	ids := make([]uint64, len(t.tracePoints))
	for i, name := range t.tracePoints {
		ids[i], _ = t.Path(t.tracefs).Str("/events/kvm/").Name(name).Str("/id").Number()
	}
	online := t.Path("/sys/devices/system/cpu/online").Value()
	again := !t.failed.IsZero() && t.now().Sub(t.failed) >= retryTime
	if again || !slices.Equal(ids, t.ids) || !bytes.Equal(online, t.online) {
		t.ids, t.online = ids, append(t.online[:0], online...)
		t.openAll()
	}
}

// openAll opens the counters. A CPU that is offline has no instance.
//
// C differs: it opens them when it starts, and all values are 0 if the kernel lacks one of the trace
// points.
func (t *traces) openAll() {
	_ = t.close()
	t.failed = time.Time{}
	t.index, t.instances, t.values = t.index[:0], nil, nil
	var ids []uint64
	for _, id := range t.ids {
		if id == 0 {
			t.index = append(t.index, -1)
			continue
		}
		t.index = append(t.index, len(ids))
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		return
	}
	if t.cpus == 0 {
		t.cpus = min(t.host.cpus(), maxCPUs)
	}
	t.buf = make([]byte, 8*(1+len(ids)))
	for cpu := range t.cpus {
		if err := t.openCPU(ids, cpu); err != nil {
			if errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.EINVAL) {
				continue
			}
			if !t.warned {
				t.log.Warn("{agent}: kvm.trace has no values: perf_event_open: {error}; the agent tries again each minute", "error", err)
			}
			_ = t.close() // the process may have run out of descriptors
			t.instances, t.values = nil, nil
			t.failed, t.warned = t.now(), true
			return
		}
	}
	t.warned = false
}

// openCPU opens the counters of one CPU.
func (t *traces) openCPU(ids []uint64, cpu int) error {
	group := -1
	for _, id := range ids {
		fd, err := t.perfOpen(id, cpu, group)
		if err != nil {
			return err
		}
		t.fds = append(t.fds, fd)
		if group < 0 {
			group = fd
		}
	}
	t.groupFDs = append(t.groupFDs, group)
	t.values = append(t.values, make([]byte, 8*len(ids)))
	t.instances = append(t.instances, pdu.Inst{ID: int32(cpu), Name: "cpu" + strconv.Itoa(cpu)})
	return nil
}

// refresh reads the counters of all CPUs.
func (t *traces) refresh(context.Context, *pmda.Request) error {
	if t.locked {
		return pdu.ErrnoPermission
	}
	t.update()
	for i, fd := range t.groupFDs {
		n, err := t.perfRead(fd, t.buf)
		t.values[i] = t.values[i][:0]
		if err == nil && n == len(t.buf) {
			t.values[i] = append(t.values[i], t.buf[8:]...)
		}
	}
	return nil
}

func (t *traces) close() error {
	for _, fd := range t.fds {
		syscall.Close(fd)
	}
	t.fds, t.groupFDs = nil, nil
	return nil
}

func (t *traces) subtree() *pmda.Subtree {
	indom := &pmda.InDom{
		Insts: &t.instances, Source: &pmda.Source{Read: t.refresh}, Labels: pmda.Labels{"device_type": "cpu", "indom_name": "per cpu"},
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			return pmda.Labels{"cpu": i.ID}, nil
		},
	}
	ms := []pmda.Metric{{
		Cluster: 1, Name: "kvm.trace.count", Type: pdu.MetricU64, Sem: pdu.SemDiscrete, Units: pdu.Count,
		Fetch: func(_ context.Context, v *pmda.Value) error {
			if t.locked {
				return pdu.ErrnoPermission
			}
			v.SetUint(uint64(len(t.tracePoints)))
			return nil
		},
	}}
	for i, name := range t.tracePoints {
		ms = append(ms, pmda.Metric{
			Cluster: 1, Item: i + 1, Name: "kvm.trace." + name, Type: pdu.Metric64, InDom: indom, Sem: pdu.SemInstant,
			OneLine: "how often the trace point " + name + " was passed",
			Fetch: func(_ context.Context, v *pmda.Value) error {
				if values := t.values[v.Index()]; t.index[i] >= 0 && len(values) > 0 {
					v.SetUint(binary.NativeEndian.Uint64(values[8*t.index[i]:]))
				}
				return nil
			},
		})
	}
	tree := &pmda.Subtree{Prefix: "kvm.trace"}
	if err := tree.Set(ms); err != nil {
		t.log.Error("{agent}: kvm.trace has no metrics: {error}", "error", err)
	}
	return tree
}
