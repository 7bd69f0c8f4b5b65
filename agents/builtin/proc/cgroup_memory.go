package proc

import "github.com/gopcp/pmcd/agents/pmda"

// memory returns the metrics of memory.stat and the files beside it. Each of the two
// versions has fields that the other lacks.
//
// C differs: workingset.activate and workingset.refault have no values since Linux 5.9.
func (m *mounts) memory() []pmda.Metric {
	// The table below decides which fields of memory.stat are parsed.
	fields := make(map[string]int)
	index := func(name string) int {
		i, ok := fields[name]
		if !ok {
			i = len(fields)
			fields[name] = i
		}
		return i
	}
	g := newGroups(m, indomMemory, "memory", "memory.stat", "memory", format{file: "memory.stat", fields: 64},
		oneNumber("memory.usage_in_bytes"), oneNumber("memory.limit_in_bytes"), oneNumber("memory.failcnt"), oneNumber("memory.current"))
	stat := func(name string) pmda.FetchFunc { return g.unsigned(0, index(name)) }
	ms := table(pmda.Metric{InDom: g.indom}, []row{
		{45, 0, "cgroup.memory.stat.cache", u64, instant, octet, stat("cache")},
		{45, 1, "cgroup.memory.stat.rss", u64, instant, octet, stat("rss")},
		{45, 2, "cgroup.memory.stat.rss_huge", u64, instant, octet, stat("rss_huge")},
		{45, 3, "cgroup.memory.stat.mapped_file", u64, instant, octet, stat("mapped_file")},
		{45, 4, "cgroup.memory.stat.writeback", u64, instant, octet, stat("writeback")},
		{45, 5, "cgroup.memory.stat.swap", u64, instant, octet, stat("swap")},
		{45, 6, "cgroup.memory.stat.pgpgin", u64, counter, count, stat("pgpgin")},
		{45, 7, "cgroup.memory.stat.pgpgout", u64, counter, count, stat("pgpgout")},
		{45, 8, "cgroup.memory.stat.pgfault", u64, counter, count, stat("pgfault")},
		{45, 9, "cgroup.memory.stat.pgmajfault", u64, counter, count, stat("pgmajfault")},
		{45, 10, "cgroup.memory.stat.inactive_anon", u64, instant, octet, stat("inactive_anon")},
		{45, 11, "cgroup.memory.stat.active_anon", u64, instant, octet, stat("active_anon")},
		{45, 12, "cgroup.memory.stat.inactive_file", u64, instant, octet, stat("inactive_file")},
		{45, 13, "cgroup.memory.stat.active_file", u64, instant, octet, stat("active_file")},
		{45, 14, "cgroup.memory.stat.unevictable", u64, instant, octet, stat("unevictable")},
		{45, 17, "cgroup.memory.stat.anon", u64, instant, octet, stat("anon")},
		{45, 18, "cgroup.memory.stat.anon_thp", u64, instant, octet, stat("anon_thp")},
		{45, 19, "cgroup.memory.stat.file", u64, instant, octet, stat("file")},
		{45, 20, "cgroup.memory.stat.file_dirty", u64, instant, octet, stat("file_dirty")},
		{45, 21, "cgroup.memory.stat.file_mapped", u64, instant, octet, stat("file_mapped")},
		{45, 22, "cgroup.memory.stat.file_writeback", u64, instant, octet, stat("file_writeback")},
		{45, 25, "cgroup.memory.stat.kernel_stack", u64, instant, octet, stat("kernel_stack")},
		{45, 26, "cgroup.memory.stat.pgactivate", u64, instant, octet, stat("pgactivate")},
		{45, 27, "cgroup.memory.stat.pgdeactivate", u64, instant, octet, stat("pgdeactivate")},
		{45, 28, "cgroup.memory.stat.pglazyfree", u64, instant, octet, stat("pglazyfree")},
		{45, 29, "cgroup.memory.id.container", str, discrete, none, g.containerName()},
		{45, 30, "cgroup.memory.stat.total.cache", u64, instant, octet, stat("total_cache")},
		{45, 31, "cgroup.memory.stat.total.rss", u64, instant, octet, stat("total_rss")},
		{45, 32, "cgroup.memory.stat.total.rss_huge", u64, instant, octet, stat("total_rss_huge")},
		{45, 33, "cgroup.memory.stat.total.mapped_file", u64, instant, octet, stat("total_mapped_file")},
		{45, 34, "cgroup.memory.stat.total.writeback", u64, instant, octet, stat("total_writeback")},
		{45, 35, "cgroup.memory.stat.total.swap", u64, instant, octet, stat("total_swap")},
		{45, 36, "cgroup.memory.stat.total.pgpgin", u64, counter, count, stat("total_pgpgin")},
		{45, 37, "cgroup.memory.stat.total.pgpgout", u64, counter, count, stat("total_pgpgout")},
		{45, 38, "cgroup.memory.stat.total.pgfault", u64, counter, count, stat("total_pgfault")},
		{45, 39, "cgroup.memory.stat.total.pgmajfault", u64, counter, count, stat("total_pgmajfault")},
		{45, 40, "cgroup.memory.stat.total.inactive_anon", u64, instant, octet, stat("total_inactive_anon")},
		{45, 41, "cgroup.memory.stat.total.active_anon", u64, instant, octet, stat("total_active_anon")},
		{45, 42, "cgroup.memory.stat.total.inactive_file", u64, instant, octet, stat("total_inactive_file")},
		{45, 43, "cgroup.memory.stat.total.active_file", u64, instant, octet, stat("total_active_file")},
		{45, 44, "cgroup.memory.stat.total.unevictable", u64, instant, octet, stat("total_unevictable")},
		{45, 50, "cgroup.memory.stat.pglazyfreed", u64, instant, octet, stat("pglazyfreed")},
		{45, 51, "cgroup.memory.stat.pgrefill", u64, instant, octet, stat("pgrefill")},
		{45, 52, "cgroup.memory.stat.pgscan", u64, instant, octet, stat("pgscan")},
		{45, 53, "cgroup.memory.stat.pgsteal", u64, instant, octet, stat("pgsteal")},
		{45, 60, "cgroup.memory.stat.recent.rotated_anon", u64, counter, octet, stat("recent_rotated_anon")},
		{45, 61, "cgroup.memory.stat.recent.rotated_file", u64, counter, octet, stat("recent_rotated_file")},
		{45, 62, "cgroup.memory.stat.recent.scanned_anon", u64, counter, octet, stat("recent_scanned_anon")},
		{45, 63, "cgroup.memory.stat.recent.scanned_file", u64, counter, octet, stat("recent_scanned_file")},
		{45, 64, "cgroup.memory.stat.shmem", u64, instant, octet, stat("shmem")},
		{45, 65, "cgroup.memory.stat.slab", u64, instant, octet, stat("slab")},
		{45, 66, "cgroup.memory.stat.slab_reclaimable", u64, instant, octet, stat("slab_reclaimable")},
		{45, 67, "cgroup.memory.stat.slab_unreclaimable", u64, instant, octet, stat("slab_unreclaimable")},
		{45, 68, "cgroup.memory.stat.sock", u64, instant, octet, stat("sock")},
		{45, 70, "cgroup.memory.stat.thp_collapse_alloc", u64, instant, octet, stat("thp_collapse_alloc")},
		{45, 71, "cgroup.memory.stat.thp_fault_alloc", u64, instant, octet, stat("thp_fault_alloc")},
		{45, 72, "cgroup.memory.stat.workingset.activate", u64, instant, octet, stat("workingset_activate")},
		{45, 73, "cgroup.memory.stat.workingset.nodereclaim", u64, instant, octet, stat("workingset_nodereclaim")},
		{45, 74, "cgroup.memory.stat.workingset.refault", u64, instant, octet, stat("workingset_refault")},
		{45, 80, "cgroup.memory.usage", u64, instant, octet, g.unsigned(1, 0)},
		{45, 81, "cgroup.memory.limit", u64, instant, octet, g.withField(2, 0, func(v *pmda.Value, r record) {
			if r.num(0) != 1<<64-1 { // no limit, with Linux 3.15 to 3.18
				v.SetUint(r.num(0))
			}
		})},
		{45, 82, "cgroup.memory.failcnt", u64, counter, count, g.unsigned(3, 0)},
		{45, 90, "cgroup.memory.current", u64, instant, octet, g.unsigned(4, 0)},
	})
	for _, name := range []string{"workingset_activate", "workingset_refault"} { // since Linux 5.9 in two parts
		fields[name+"_anon"], fields[name+"_file"] = fields[name], fields[name]
	}
	g.files[0].parse = keyedBy(fields)
	return ms
}
