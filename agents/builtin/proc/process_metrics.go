package proc

import (
	"context"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// processes are the metrics below proc.
type processes struct {
	*host
	indom  *processIndom
	found  *pmda.Source // sets indom.pids
	source *pmda.Source // makes the list of all processes
	runq   runq
}

func newProcesses(h *host) *processes {
	p := &processes{host: h, indom: newProcessIndom(&h.tree)}
	p.found = &pmda.Source{Read: p.find}
	p.source = &pmda.Source{Read: func(ctx context.Context, r *pmda.Request) error {
		err := r.ReadSource(ctx, p.found)
		if err == nil {
			err = p.indom.updateList(r, p.indom.pids)
		}
		return err
	}}
	return p
}

// maxNamed is the number of processes up to which a profile that names them is all that is read:
// the directory of 3,000 processes takes as long as the status of 200.
const maxNamed = 32

// readNamed lists the processes that the profile of a fetch names, if they are few. It reports
// false if all processes must be listed. /proc/PID exists also for threads, which Tgid tells from
// processes.
func (s *processes) readNamed(ctx context.Context, r *pmda.Request) (bool, error) {
	threads, cgroup := s.listSettings(r.Client())
	if r.Profile == nil || threads || cgroup != "" || s.indom.tooMany() {
		return false, nil
	}
	profile := r.Profile.For(pdu.NewInDom(s.domain, indomProc))
	if !profile.Exclude || len(profile.Insts) > maxNamed {
		return false, nil
	}
	if err := r.ReadSource(ctx, s.container); err != nil || s.cgroup != "" {
		return false, err
	}
	s.indom.threads, s.indom.named = false, false
	s.indom.wanted |= 1 << formatStatus
	if err := s.indom.updateNamed(slices.Sorted(slices.Values(profile.Insts))); err != nil {
		return false, err
	}
	listed := s.indom.list[:0]
	for _, p := range s.indom.list {
		switch status := p.record(formatStatus); {
		case status.ok() && status.num(statusTgid) == uint64(p.id):
			listed = append(listed, p)
		case !status.ok() && s.Path("/proc/").Num(p.id).Exists():
			return false, nil // with hidepid=1 not all users may read it
		default:
			delete(s.indom.processes, p.id)
		}
	}
	s.indom.list = listed
	return true, nil
}

// find finds the processes that the client's settings and container select.
func (s *processes) find(ctx context.Context, r *pmda.Request) error {
	err := r.ReadSource(ctx, s.container)
	threads, cgroup := s.listSettings(r.Client())
	if err == nil && (s.cgroup != "" || cgroup != "") {
		err = r.ReadSource(ctx, s.mounts.source)
	}
	if err != nil {
		return err
	}
	s.indom.threads = threads
	if s.cgroup != "" {
		err = s.indom.findContainer(s.mounts.containerDir())
	} else if cgroup != "" {
		s.indom.findGroup(s.mounts.checkedDir(cgroup))
	} else if err = s.indom.findAll(); err == nil && threads {
		err = s.indom.addThreads()
	}
	s.indom.sortedPIDs()
	return err
}

// checkMayRead returns an error if the client may not see processes.
func (h *host) checkMayRead() error {
	if !h.mayReadProcesses {
		return pdu.ErrnoPermission
	}
	return nil
}

func (s *processes) metrics() []pmda.Metric {
	allowed := &pmda.Source{Read: func(ctx context.Context, r *pmda.Request) error {
		if err := s.checkMayRead(); err != nil {
			return err
		}
		if done, err := s.readNamed(ctx, r); done || err != nil {
			return err
		}
		return r.ReadSource(ctx, s.source)
	}}
	states := &pmda.Source{Read: func(ctx context.Context, r *pmda.Request) error {
		err := r.ReadSource(ctx, s.source)
		if err == nil {
			err = s.runq.count(s.indom.list)
		}
		return err
	}}
	state := func(i int) pmda.FetchFunc { return pmda.FromUint(func() (uint64, bool) { return s.runq[i], true }) }
	indom := s.indom.pmdaInDom(indomProc, allowed)
	return slices.Concat(
		s.processMetrics("proc.", indom, nil),
		s.processTable(pmda.Metric{InDom: indom}, "", nil, []processRow{ // there is no hotproc.numa_maps
			{81, 0, "proc.numa_maps.hugepage", str, instant, none, text(formatNUMA, numaHuge)},
			{81, 1, "proc.numa_maps.heap", str, instant, none, text(formatNUMA, numaHeap)},
			{81, 2, "proc.numa_maps.stack", str, instant, none, text(formatNUMA, numaStack)},
			{81, 3, "proc.numa_maps.private", str, instant, none, text(formatNUMA, numaPrivate)},
		}),
		table(pmda.Metric{Source: s.found}, []row{
			{8, 99, "proc.nprocs", u32, instant, none, pmda.FromUint(func() (uint64, bool) { return uint64(len(s.indom.pids)), true })},
		}),
		table(pmda.Metric{Source: states}, []row{
			{13, 0, "proc.runq.runnable", i32, instant, count, state(runnable)},
			{13, 1, "proc.runq.blocked", i32, instant, count, state(blocked)},
			{13, 2, "proc.runq.sleeping", i32, instant, count, state(sleeping)},
			{13, 3, "proc.runq.stopped", i32, instant, count, state(stopped)},
			{13, 4, "proc.runq.swapped", i32, instant, count, state(swapped)},
			{13, 5, "proc.runq.defunct", i32, instant, count, state(defunct)},
			{13, 6, "proc.runq.unknown", i32, instant, count, state(unknown)},
			{13, 7, "proc.runq.kernel", i32, instant, count, state(kernel)},
		}),
	)
}

// processMetrics returns the metrics that each process has, with names below prefix.
// Clusters that are keys of clusters are replaced by the values.
func (h *host) processMetrics(prefix string, indom *pmda.InDom, clusters map[int]int) []pmda.Metric {
	autogroups := &pmda.Source{Read: h.readAutogroup}
	enabled := func(_ context.Context, v *pmda.Value) error {
		if h.autogroup {
			v.SetUint(1)
		} else {
			v.SetUint(0)
		}
		return h.checkMayRead()
	}
	return slices.Concat(
		h.processTable(pmda.Metric{InDom: indom}, prefix, clusters,
			slices.Concat(h.psinfoMetrics(), h.memoryMetrics(), h.idMetrics(), h.activityMetrics(), h.gpuMetrics())),
		h.processTable(pmda.Metric{InDom: indom, Source: autogroups}, prefix, clusters, []processRow{
			{74, 1, "autogroup.id", u32, discrete, none, h.ifAutogroup(unsigned(formatAutogroup, 0))},
			{74, 2, "autogroup.nice", i32, instant, none, h.ifAutogroup(signed(formatAutogroup, 1))},
		}),
		h.processTable(pmda.Metric{Source: autogroups}, prefix, clusters, []processRow{
			{74, 0, "autogroup.enabled", u32, instant, none, value{noFormat, 0, enabled}},
		}),
	)
}

// readAutogroup reads whether the scheduler groups processes by session (autogroups,
// sched(7)).
func (h *host) readAutogroup(context.Context, *pmda.Request) error {
	b, err := h.Path("/proc/sys/kernel/sched_autogroup_enabled").Text(16)
	h.autogroup = err == nil && len(b) > 0 && b[0] == '1'
	return h.checkMayRead()
}

func (h *host) ifAutogroup(from value) value {
	return value{from.format, from.fields, func(ctx context.Context, v *pmda.Value) error {
		if !h.autogroup {
			return nil
		}
		return from.fetch(ctx, v)
	}}
}

// activityMetrics returns the metrics of scheduling, of input and output, and of
// file descriptors.
func (h *host) activityMetrics() []processRow {
	const i, s = formatIO, formatSchedstat
	return []processRow{
		{31, 0, "schedstat.cpu_time", u64, counter, nsec, unsigned(s, 0)},
		{31, 1, "schedstat.run_delay", u64, counter, nsec, unsigned(s, 1)},
		{31, 2, "schedstat.pcount", u64, counter, count, unsigned(s, 2)},

		{32, 0, "io.rchar", u64, counter, octet, unsigned(i, 0)},
		{32, 1, "io.wchar", u64, counter, octet, unsigned(i, 1)},
		{32, 2, "io.syscr", u64, counter, count, unsigned(i, 2)},
		{32, 3, "io.syscw", u64, counter, count, unsigned(i, 3)},
		{32, 4, "io.read_bytes", u64, counter, octet, unsigned(i, 4)},
		{32, 5, "io.write_bytes", u64, counter, octet, unsigned(i, 5)},
		{32, 6, "io.cancelled_write_bytes", u64, counter, octet, unsigned(i, 6)},

		{51, 0, "fd.count", u32, instant, count, unsigned(formatFD, 0)},

		{79, 0, "delayacct.cpu_time", u64, counter, nsec, unsigned(formatDelays, delayCPU)},
		{79, 1, "delayacct.blkio_time", u64, counter, nsec, unsigned(formatDelays, delayBlkio)},
		{79, 2, "delayacct.swapin_time", u64, counter, nsec, unsigned(formatDelays, delaySwapin)},
	}
}

// gpuMetrics returns the metrics of the memory of AMD GPUs.
func (h *host) gpuMetrics() (rows []processRow) {
	for i, name := range gpuFields {
		rows = append(rows, processRow{77, i, "fdinfo." + strings.ReplaceAll(name, "-", "_"), u64, instant, kbyte, unsigned(formatGPU, i)})
	}
	return rows
}

// idMetrics returns the metrics of the users and groups of a process, of its
// container, and of its ids in namespaces.
func (h *host) idMetrics() []processRow {
	user := func(field int) value {
		return withRecord(formatStatus, 1<<field, func(v *pmda.Value, p *process, r record) {
			v.SetString(p.tree.names.user(uint32(r.num(field))))
		})
	}
	group := func(field int) value {
		return withRecord(formatStatus, 1<<field, func(v *pmda.Value, p *process, r record) {
			v.SetString(p.tree.names.group(uint32(r.num(field))))
		})
	}
	const f, u, g = formatStatus, statusUID, statusGID
	return []processRow{
		{24, 0, "id.uid", u32, discrete, none, unsigned(f, u)},
		{24, 1, "id.euid", u32, discrete, none, unsigned(f, u+1)},
		{24, 2, "id.suid", u32, discrete, none, unsigned(f, u+2)},
		{24, 3, "id.fsuid", u32, discrete, none, unsigned(f, u+3)},
		{24, 4, "id.gid", u32, discrete, none, unsigned(f, g)}, // C differs: the value is the user id
		{24, 5, "id.egid", u32, discrete, none, unsigned(f, g+1)},
		{24, 6, "id.sgid", u32, discrete, none, unsigned(f, g+2)},
		{24, 7, "id.fsgid", u32, discrete, none, unsigned(f, g+3)},
		{24, 8, "id.uid_nm", str, discrete, none, user(u)},
		{24, 9, "id.euid_nm", str, discrete, none, user(u + 1)},
		{24, 10, "id.suid_nm", str, discrete, none, user(u + 2)},
		{24, 11, "id.fsuid_nm", str, discrete, none, user(u + 3)},
		{24, 12, "id.gid_nm", str, discrete, none, group(g)},
		{24, 13, "id.egid_nm", str, discrete, none, group(g + 1)},
		{24, 14, "id.sgid_nm", str, discrete, none, group(g + 2)},
		{24, 15, "id.fsgid_nm", str, discrete, none, group(g + 3)},
		{11, 1, "id.container", str, discrete, none, text(formatCgroup, 1)},

		{24, 37, "namespaces.tgid", str, discrete, none, newerField(statusNStgid, text)},
		{24, 38, "namespaces.pid", str, discrete, none, newerField(statusNSpid, text)},
		{24, 39, "namespaces.pgid", str, discrete, none, newerField(statusNSpgid, text)},
		{24, 40, "namespaces.sid", str, discrete, none, newerField(statusNSsid, text)},
		{24, 42, "namespaces.envid", u32, discrete, none, newerField(statusEnvID, unsigned)},
	}
}

// newerField returns the value of a field of status that older kernels do not
// have: it fails with PM_ERR_APPVERSION there.
func newerField(field int, of func(format, field int) value) value {
	from := of(formatStatus, field)
	return value{formatStatus, from.fields, func(ctx context.Context, v *pmda.Value) error {
		r := v.Data().(*process).record(formatStatus)
		if r.ok() && !r.has(field) {
			return pdu.ErrnoAppVersion
		}
		return from.fetch(ctx, v)
	}}
}
