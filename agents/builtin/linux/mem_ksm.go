package linux

import "github.com/gopcp/pmcd/agents/pmda"

// ksmMetrics returns the metrics of files of /sys/kernel/mm/ksm, see the kernel's
// Documentation/admin-guide/mm/ksm.rst.
//
// C differs: without the file the value is 0.
func ksmMetrics(h *host) []pmda.Metric {
	value := func(file string) pmda.FetchFunc {
		return pmda.FromUint(func() (uint64, bool) { return h.hostReader.Path("/sys/kernel/mm/ksm/").Name(file).Number() })
	}
	return table(pmda.Metric{}, []row{
		{69, 0, "mem.ksm.full_scans", u64, instant, count, value("full_scans")},
		{69, 1, "mem.ksm.merge_across_nodes", u64, instant, none, value("merge_across_nodes")},
		{69, 2, "mem.ksm.pages_shared", u64, instant, none, value("pages_shared")},
		{69, 3, "mem.ksm.pages_sharing", u64, instant, none, value("pages_sharing")},
		{69, 4, "mem.ksm.pages_to_scan", u64, instant, none, value("pages_to_scan")},
		{69, 5, "mem.ksm.pages_unshared", u64, instant, count, value("pages_unshared")},
		{69, 6, "mem.ksm.pages_volatile", u64, instant, none, value("pages_volatile")},
		{69, 7, "mem.ksm.run_state", u64, instant, none, value("run")},
		{69, 8, "mem.ksm.sleep_time", u64, instant, msec, value("sleep_millisecs")},
	})
}
