package proc

import (
	"context"
	"strings"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/pmda"
)

// psinfoMetrics returns the metrics of stat, and others that ps(1) shows.
//
// C differs: its rt_priority, policy, delayacct_blkio_time, guest_time and
// cguest_time are the field after theirs in stat, and its priority is rt_priority;
// exit_signal of a thread, -1, is 4294967295.
func (h *host) psinfoMetrics() []processRow {
	msecs := func(field int) value {
		return withRecord(formatStat, 1<<field, func(v *pmda.Value, p *process, r record) {
			if r.has(field) {
				v.SetUint(p.tree.msecs(r.num(field)))
			}
		})
	}
	notNegative := func(field int) value {
		return withRecord(formatStat, 1<<field, func(v *pmda.Value, _ *process, r record) {
			if n := int64(r.num(field)); r.has(field) && n >= 0 {
				v.SetInt(n)
			}
		})
	}
	// The kernel shows addresses only to users that may trace the process.
	address := func(field int) value {
		return withRecord(formatStat, 1<<field, func(v *pmda.Value, p *process, r record) {
			switch {
			case p.tree.hidesPrivate(p):
				v.SetUint(0)
			case r.has(field):
				v.SetUint(r.num(field))
			}
		})
	}
	const s, st = formatStat, formatStatus
	return []processRow{
		{8, 0, "psinfo.pid", u32, discrete, none, value{noFormat, 0, func(_ context.Context, v *pmda.Value) error {
			v.SetInt(int64(v.Inst()))
			return nil
		}}},
		{8, 1, "psinfo.cmd", str, discrete, none, text(s, statComm)},
		{8, 2, "psinfo.sname", str, instant, none, text(s, statState)},
		{8, 3, "psinfo.ppid", u32, discrete, none, unsigned(s, statPPID)},
		{8, 4, "psinfo.pgrp", u32, discrete, none, unsigned(s, 5)},
		{8, 5, "psinfo.session", u32, discrete, none, unsigned(s, 6)},
		{8, 6, "psinfo.tty", u32, discrete, none, unsigned(s, statTTY)},
		{8, 7, "psinfo.tty_pgrp", u32, discrete, none, notNegative(statTPGID)},
		{8, 8, "psinfo.flags", u32, discrete, none, unsigned(s, 9)},
		{8, 9, "psinfo.minflt", u32, counter, count, unsigned(s, 10)},
		{8, 10, "psinfo.cmin_flt", u32, counter, count, unsigned(s, 11)},
		{8, 11, "psinfo.maj_flt", u32, counter, count, unsigned(s, 12)},
		{8, 12, "psinfo.cmaj_flt", u32, counter, count, unsigned(s, 13)},
		{8, 13, "psinfo.utime", u64, counter, msec, msecs(statUtime)},
		{8, 14, "psinfo.stime", u64, counter, msec, msecs(statStime)},
		{8, 15, "psinfo.cutime", u64, counter, msec, msecs(16)},
		{8, 16, "psinfo.cstime", u64, counter, msec, msecs(17)},
		{8, 17, "psinfo.priority", i32, instant, none, signed(s, 18)},
		{8, 18, "psinfo.nice", i32, instant, none, signed(s, 19)},
		{8, 20, "psinfo.it_real_value", u32, discrete, none, unsigned(s, 21)},
		{8, 21, "psinfo.start_time", u64, discrete, msec, msecs(statStart)},
		{8, 22, "psinfo.vsize", u64, instant, kbyte, scaled(s, statVsize, func(*tree) (uint64, uint64) { return 1, 1024 })},
		{8, 23, "psinfo.rss", u64, instant, kbyte, pages(s, statRSS)},
		{8, 24, "psinfo.rss_rlim", u64, instant, kbyte, scaled(s, statRSSLim, func(*tree) (uint64, uint64) { return 1, 1024 })},
		{8, 25, "psinfo.start_code", u32, discrete, none, address(26)},
		{8, 26, "psinfo.end_code", u32, discrete, none, address(27)},
		{8, 27, "psinfo.start_stack", u32, discrete, none, address(28)},
		{8, 28, "psinfo.esp", u32, discrete, none, address(29)},
		{8, 29, "psinfo.eip", u32, discrete, none, address(30)},
		{8, 30, "psinfo.signal", u32, discrete, none, unsigned(s, 31)},
		{8, 31, "psinfo.blocked", u32, discrete, none, unsigned(s, 32)},
		{8, 32, "psinfo.sigignore", u32, discrete, none, unsigned(s, 33)},
		{8, 33, "psinfo.sigcatch", u32, discrete, none, unsigned(s, 34)},
		{8, 34, "psinfo.wchan", u64, discrete, none, address(35)},
		{8, 35, "psinfo.nswap", u32, counter, count, unsigned(s, 36)},
		{8, 36, "psinfo.cnswap", u32, counter, count, unsigned(s, 37)},
		{8, 37, "psinfo.exit_signal", u32, discrete, none, notNegative(38)},
		{8, 38, "psinfo.processor", u32, instant, none, unsigned(s, 39)},
		{8, 39, "psinfo.ttyname", str, discrete, none, withRecord(s, 1<<statTTY, func(v *pmda.Value, _ *process, r record) {
			v.SetString(h.terminals.name(&h.tree, uint32(r.num(statTTY))))
		})},
		{8, 40, "psinfo.wchan_s", str, instant, none, text(formatWchan, 0)},
		{8, 41, "psinfo.psargs", str, discrete, none, value{s, 0, func(_ context.Context, v *pmda.Value) error {
			v.SetString(v.Data().(*process).args())
			return nil
		}}},
		{8, 42, "psinfo.rt_priority", u32, instant, none, unsigned(s, 40)},
		{8, 43, "psinfo.policy", u32, instant, none, unsigned(s, statPolicy)},
		{8, 44, "psinfo.delayacct_blkio_time", u64, counter, msec, msecs(statBlkio)},
		{8, 45, "psinfo.guest_time", u64, counter, msec, msecs(43)},
		{8, 46, "psinfo.cguest_time", u64, counter, msec, msecs(44)},
		{8, 47, "psinfo.environ", str, instant, none, textOrEmpty(formatEnviron)},
		{8, 48, "psinfo.policy_s", str, instant, none, withRecord(s, 1<<statPolicy, func(v *pmda.Value, _ *process, r record) {
			v.SetString(policyName(r.num(statPolicy)))
		})},

		{11, 0, "psinfo.cgroups", str, instant, none, text(formatCgroup, 0)},
		{12, 0, "psinfo.labels", str, instant, none, text(formatLabel, 0)},

		{24, 16, "psinfo.signal_s", str, instant, none, text(st, statusSigs)},
		{24, 17, "psinfo.blocked_s", str, instant, none, text(st, statusSigs+1)},
		{24, 18, "psinfo.sigignore_s", str, instant, none, text(st, statusSigs+2)},
		{24, 19, "psinfo.sigcatch_s", str, instant, none, text(st, statusSigs+3)},
		{24, 28, "psinfo.threads", u32, instant, none, unsigned(st, statusThreads)},
		{24, 29, "psinfo.vctxsw", u32, instant, none, unsigned(st, statusVoluntary)},
		{24, 30, "psinfo.nvctxsw", u32, instant, none, unsigned(st, statusInvoluntary)},
		{24, 31, "psinfo.cpusallowed", str, instant, none, newerField(statusCpus, text)},
		{24, 32, "psinfo.ngid", u32, discrete, none, newerField(statusNgid, unsigned)}, // C differs: the value is an index of its own
		{24, 41, "psinfo.tgid", u32, discrete, none, newerField(statusTgid, unsigned)},

		{62, 0, "psinfo.oom_score", u32, instant, none, unsigned(formatOOM, 0)},
		{69, 0, "psinfo.exe", str, discrete, none, textOrEmpty(formatExe)},
		{72, 0, "psinfo.cwd", str, discrete, none, textOrEmpty(formatCwd)},
	}
}

// policyName returns the name of a policy of the scheduler (SCHED_*, sched.h).
//
// C differs: it does not know SCHED_EXT, which is new in Linux 6.12.
func policyName(policy uint64) string {
	names := [...]string{0: "NORMAL", 1: "FIFO", 2: "RR", 3: "BATCH", 5: "IDLE", 6: "DEADLN", 7: "EXT"}
	if policy < uint64(len(names)) && names[policy] != "" {
		return names[policy]
	}
	return "?"
}

// memoryMetrics returns the metrics of statm, status and smaps_rollup, in KiB.
func (h *host) memoryMetrics() []processRow {
	// Kernel threads have none of these fields; their values are 0.
	vm := func(field int) value {
		return withRecord(formatStatus, 1<<field, func(v *pmda.Value, _ *process, r record) {
			v.SetUint(r.num(field))
		})
	}
	pages := func(field int) value {
		return withRecord(formatStatm, 1<<field, func(v *pmda.Value, p *process, r record) {
			if r.has(field) {
				v.SetUint(metrics.Scale(r.num(field), p.tree.pageSize, 1024))
			}
		})
	}
	rows := []processRow{
		{9, 0, "memory.size", u32, instant, kbyte, unsigned(formatMemory, memorySize)},
		{9, 1, "memory.rss", u32, instant, kbyte, unsigned(formatMemory, memoryRSS)},
		{9, 2, "memory.share", u32, instant, kbyte, pages(2)},
		{9, 3, "memory.textrss", u32, instant, kbyte, pages(3)},
		{9, 4, "memory.librss", u32, instant, kbyte, pages(4)},
		{9, 5, "memory.datrss", u32, instant, kbyte, pages(5)},
		{9, 6, "memory.dirty", u32, instant, kbyte, pages(6)},
		{9, 7, "memory.maps", str, instant, none, textOrEmpty(formatMaps)},

		{24, 20, "memory.vmsize", u32, instant, kbyte, vm(statusVmSize)},
		{24, 21, "memory.vmlock", u32, instant, kbyte, vm(statusVmLck)},
		{24, 22, "memory.vmrss", u32, instant, kbyte, vm(statusVmRSS)},
		{24, 23, "memory.vmdata", u32, instant, kbyte, vm(statusVmData)},
		{24, 24, "memory.vmstack", u32, instant, kbyte, vm(statusVmStk)},
		{24, 25, "memory.vmexe", u32, instant, kbyte, vm(statusVmExe)},
		{24, 26, "memory.vmlib", u32, instant, kbyte, vm(statusVmLib)},
		{24, 27, "memory.vmswap", u32, instant, kbyte, vm(statusVmSwap)},
		{24, 33, "memory.vmpeak", u32, instant, kbyte, vm(statusVmPeak)},
		{24, 34, "memory.vmpin", u32, instant, kbyte, vm(statusVmPin)},
		{24, 35, "memory.vmhwm", u32, instant, kbyte, vm(statusVmHWM)},
		{24, 36, "memory.vmpte", u32, instant, kbyte, vm(statusVmPTE)},
		{24, 43, "memory.vmreal", u64, instant, kbyte, withRecord(formatStatus, 1<<statusVmRSS|1<<statusVmSwap, func(v *pmda.Value, _ *process, r record) {
			v.SetUint(r.num(statusVmRSS) + r.num(statusVmSwap))
		})},
		{24, 44, "memory.vmnonlib", u64, instant, kbyte, withRecord(formatStatus, 1<<statusVmRSS|1<<statusVmSwap|1<<statusVmLib, func(v *pmda.Value, _ *process, r record) {
			n := r.num(statusVmRSS) + r.num(statusVmSwap)
			v.SetUint(n - min(n, r.num(statusVmLib)))
		})},
	}
	for i, name := range smapsNames {
		rows = append(rows, processRow{33, i, "smaps." + strings.ToLower(name), u64, instant, kbyte, unsigned(formatSmaps, i)})
	}
	return rows
}

// scaled returns the value of a field that is multiplied by mul and divided by
// div.
func scaled(i, field int, by func(t *tree) (mul, div uint64)) value {
	return withRecord(i, 1<<field, func(v *pmda.Value, p *process, r record) {
		if r.has(field) {
			mul, div := by(p.tree)
			v.SetUint(metrics.Scale(r.num(field), mul, div))
		}
	})
}

// pages returns the value, in KiB, of a field that is a number of pages.
func pages(i, field int) value {
	return scaled(i, field, func(t *tree) (uint64, uint64) { return t.pageSize, 1024 })
}
