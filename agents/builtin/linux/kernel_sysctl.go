package linux

import (
	"slices"

	"github.com/gopcp/pmcd/agents/pmda"
)

// sysctlMetrics returns the metrics of files with a line of numbers, most of them in
// /proc/sys, see the kernel's Documentation/admin-guide/sysctl.
//
// C differs: if one of the files of the metrics vfs is missing, none of these
// metrics has a value. Without their files, the metrics entropy are 0 and pid_max
// is 4194304.
func sysctlMetrics(h *host) []pmda.Metric {
	files, fromFiles := h.numberLine("proc/sys/fs/file-nr")
	inodes, fromInodes := h.numberLine("proc/sys/fs/inode-state")
	dentries, fromDentries := h.numberLine("proc/sys/fs/dentry-state")
	aio, fromAIO := h.numberLine("proc/sys/fs/aio-nr")
	aioMax, fromAIOMax := h.numberLine("proc/sys/fs/aio-max-nr")
	entropy, fromEntropy := h.numberLine("proc/sys/kernel/random/entropy_avail")
	pool, fromPool := h.numberLine("proc/sys/kernel/random/poolsize")
	pids, fromPIDs := h.numberLine("proc/sys/kernel/pid_max")
	ptys, fromPtys := h.numberLine("proc/sys/kernel/pty/nr")
	uevents, fromUevents := h.numberLine("sys/kernel/uevent_seqnum")
	return slices.Concat(
		table(fromFiles, []row{
			{27, 0, "vfs.files.count", i32, instant, none, files.at(0)},
			{27, 1, "vfs.files.free", i32, instant, none, files.at(1)},
			{27, 2, "vfs.files.max", i32, instant, none, files.at(2)},
		}),
		table(fromInodes, []row{
			{27, 3, "vfs.inodes.count", i32, instant, none, inodes.at(0)},
			{27, 4, "vfs.inodes.free", i32, instant, none, inodes.at(1)},
		}),
		table(fromDentries, []row{
			{27, 5, "vfs.dentry.count", i32, instant, none, dentries.at(0)},
			{27, 6, "vfs.dentry.free", i32, instant, none, dentries.at(1)},
		}),
		table(fromAIO, []row{{27, 7, "vfs.aio.count", i32, instant, none, aio.at(0)}}),
		table(fromAIOMax, []row{{27, 8, "vfs.aio.max", i32, instant, none, aioMax.at(0)}}),
		table(fromEntropy, []row{{72, 0, "kernel.all.entropy.avail", u32, instant, none, entropy.at(0)}}),
		table(fromPool, []row{{72, 1, "kernel.all.entropy.poolsize", u32, instant, none, pool.at(0)}}),
		table(fromPIDs, []row{{72, 2, "kernel.all.pid_max", u32, discrete, none, pids.at(0)}}),
		table(fromPtys, []row{{72, 3, "kernel.all.nptys", u32, instant, none, ptys.at(0)}}),
		table(fromUevents, []row{{35, 0, "sysfs.kernel.uevent_seqnum", u64, counter, count, uevents.at(0)}}),
	)
}
