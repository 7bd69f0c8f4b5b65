package linux

import (
	"strings"
	"sync"

	"github.com/gopcp/pmcd/agents/pmda"
)

// vmstat reads /proc/vmstat, proc(5): a number of pages or events in each line.
//
//	nr_free_pages 5149289
//	pswpin 0
//
// C differs: newer kernels have two fields in place of nr_slab, and of thp_split. If
// one of the two is missing, the sum is nearly 2^64.
type vmstat struct{ *keyed }

// maxVmstatPiece is more than the longest line has: a name, a blank and 20 digits.
const maxVmstatPiece = 100

func newVmstat(h *host) *vmstat {
	m := &vmstat{newKeyed(h, "proc/vmstat", ' ')}
	m.file.NeverBlocks(maxVmstatPiece)
	m.field("pgdemote_proactive") // has no metric, but is a part of pgdemote_total
	return m
}

// orSum returns a FetchFunc for a field or, in kernels that have two fields in its
// place, for their sum.
func (m *vmstat) orSum(name, first, second string) pmda.FetchFunc {
	f, a, b := m.field(name), m.field(first), m.field(second)
	return pmda.FromUint(func() (uint64, bool) {
		if f.ok {
			return f.n, true
		}
		return a.n + b.n, a.ok && b.ok
	})
}

// total returns a FetchFunc for the sum of all known fields whose names start with
// prefix. As in PCP, events that the kernel counts both by zone and by
// kind are counted twice. The sum is 0 if the file has other fields only.
func (m *vmstat) total(prefix string) pmda.FetchFunc {
	fields := sync.OnceValue(func() (list []*optionalUint) { // all are known at the first fetch
		for name, f := range m.fields {
			if strings.HasPrefix(name, prefix) {
				list = append(list, f)
			}
		}
		return list
	})
	return pmda.FromUint(func() (n uint64, ok bool) {
		for _, f := range fields() {
			n += f.n
		}
		return n, m.found
	})
}

func (m *vmstat) metrics() []pmda.Metric {
	return table(pmda.Metric{Source: m.source}, []row{
		{0, 8, "swap.pagesin", u32, counter, count, m.value("pswpin")},
		{0, 9, "swap.pagesout", u32, counter, count, m.value("pswpout")},

		{28, 0, "mem.vmstat.nr_dirty", u64, instant, none, m.value("nr_dirty")},
		{28, 1, "mem.vmstat.nr_writeback", u64, instant, none, m.value("nr_writeback")},
		{28, 2, "mem.vmstat.nr_unstable", u64, instant, none, m.value("nr_unstable")},
		{28, 3, "mem.vmstat.nr_page_table_pages", u64, instant, none, m.value("nr_page_table_pages")},
		{28, 4, "mem.vmstat.nr_mapped", u64, instant, none, m.value("nr_mapped")},
		{28, 5, "mem.vmstat.nr_slab", u64, instant, none, m.orSum("nr_slab", "nr_slab_reclaimable", "nr_slab_unreclaimable")},
		{28, 6, "mem.vmstat.pgpgin", u64, counter, count, m.value("pgpgin")},
		{28, 7, "mem.vmstat.pgpgout", u64, counter, count, m.value("pgpgout")},
		{28, 8, "mem.vmstat.pswpin", u64, counter, count, m.value("pswpin")},
		{28, 9, "mem.vmstat.pswpout", u64, counter, count, m.value("pswpout")},
		{28, 10, "mem.vmstat.pgalloc_high", u64, counter, count, m.value("pgalloc_high")},
		{28, 11, "mem.vmstat.pgalloc_normal", u64, counter, count, m.value("pgalloc_normal")},
		{28, 12, "mem.vmstat.pgalloc_dma", u64, counter, count, m.value("pgalloc_dma")},
		{28, 13, "mem.vmstat.pgfree", u64, counter, count, m.value("pgfree")},
		{28, 14, "mem.vmstat.pgactivate", u64, counter, count, m.value("pgactivate")},
		{28, 15, "mem.vmstat.pgdeactivate", u64, counter, count, m.value("pgdeactivate")},
		{28, 16, "mem.vmstat.pgfault", u64, counter, count, m.value("pgfault")},
		{28, 17, "mem.vmstat.pgmajfault", u64, counter, count, m.value("pgmajfault")},
		{28, 18, "mem.vmstat.pgrefill_high", u64, counter, count, m.value("pgrefill_high")},
		{28, 19, "mem.vmstat.pgrefill_normal", u64, counter, count, m.value("pgrefill_normal")},
		{28, 20, "mem.vmstat.pgrefill_dma", u64, counter, count, m.value("pgrefill_dma")},
		{28, 21, "mem.vmstat.pgsteal_high", u64, counter, count, m.value("pgsteal_high")},
		{28, 22, "mem.vmstat.pgsteal_normal", u64, counter, count, m.value("pgsteal_normal")},
		{28, 23, "mem.vmstat.pgsteal_dma", u64, counter, count, m.value("pgsteal_dma")},
		{28, 24, "mem.vmstat.pgscan_kswapd_high", u64, counter, count, m.value("pgscan_kswapd_high")},
		{28, 25, "mem.vmstat.pgscan_kswapd_normal", u64, counter, count, m.value("pgscan_kswapd_normal")},
		{28, 26, "mem.vmstat.pgscan_kswapd_dma", u64, counter, count, m.value("pgscan_kswapd_dma")},
		{28, 27, "mem.vmstat.pgscan_direct_high", u64, counter, count, m.value("pgscan_direct_high")},
		{28, 28, "mem.vmstat.pgscan_direct_normal", u64, counter, count, m.value("pgscan_direct_normal")},
		{28, 29, "mem.vmstat.pgscan_direct_dma", u64, counter, count, m.value("pgscan_direct_dma")},
		{28, 30, "mem.vmstat.pginodesteal", u64, counter, count, m.value("pginodesteal")},
		{28, 31, "mem.vmstat.slabs_scanned", u64, counter, count, m.value("slabs_scanned")},
		{28, 32, "mem.vmstat.kswapd_steal", u64, counter, count, m.value("kswapd_steal")},
		{28, 33, "mem.vmstat.kswapd_inodesteal", u64, counter, count, m.value("kswapd_inodesteal")},
		{28, 34, "mem.vmstat.pageoutrun", u64, counter, count, m.value("pageoutrun")},
		{28, 35, "mem.vmstat.allocstall", u64, counter, count, m.value("allocstall")},
		{28, 36, "mem.vmstat.pgrotated", u64, counter, count, m.value("pgrotated")},
		{28, 37, "mem.vmstat.nr_slab_reclaimable", u64, instant, none, m.value("nr_slab_reclaimable")},
		{28, 38, "mem.vmstat.nr_slab_unreclaimable", u64, instant, none, m.value("nr_slab_unreclaimable")},
		{28, 39, "mem.vmstat.nr_anon_pages", u64, instant, none, m.value("nr_anon_pages")},
		{28, 40, "mem.vmstat.nr_bounce", u64, instant, none, m.value("nr_bounce")},
		{28, 41, "mem.vmstat.nr_file_pages", u64, instant, none, m.value("nr_file_pages")},
		{28, 42, "mem.vmstat.nr_vmscan_write", u64, counter, count, m.value("nr_vmscan_write")},
		{28, 43, "mem.vmstat.htlb_buddy_alloc_fail", u64, counter, count, m.value("htlb_buddy_alloc_fail")},
		{28, 44, "mem.vmstat.htlb_buddy_alloc_success", u64, counter, count, m.value("htlb_buddy_alloc_success")},
		{28, 45, "mem.vmstat.nr_active_anon", u64, instant, count, m.value("nr_active_anon")},
		{28, 46, "mem.vmstat.nr_active_file", u64, instant, count, m.value("nr_active_file")},
		{28, 47, "mem.vmstat.nr_free_pages", u64, instant, count, m.value("nr_free_pages")},
		{28, 48, "mem.vmstat.nr_inactive_anon", u64, instant, count, m.value("nr_inactive_anon")},
		{28, 49, "mem.vmstat.nr_inactive_file", u64, instant, count, m.value("nr_inactive_file")},
		{28, 50, "mem.vmstat.nr_isolated_anon", u64, instant, count, m.value("nr_isolated_anon")},
		{28, 51, "mem.vmstat.nr_isolated_file", u64, instant, count, m.value("nr_isolated_file")},
		{28, 52, "mem.vmstat.nr_kernel_stack", u64, instant, count, m.value("nr_kernel_stack")},
		{28, 53, "mem.vmstat.nr_mlock", u64, instant, count, m.value("nr_mlock")},
		{28, 54, "mem.vmstat.nr_shmem", u64, instant, count, m.value("nr_shmem")},
		{28, 55, "mem.vmstat.nr_unevictable", u64, instant, count, m.value("nr_unevictable")},
		{28, 56, "mem.vmstat.nr_writeback_temp", u64, instant, count, m.value("nr_writeback_temp")},
		{28, 57, "mem.vmstat.compact_blocks_moved", u64, counter, count, m.value("compact_blocks_moved")},
		{28, 58, "mem.vmstat.compact_fail", u64, counter, count, m.value("compact_fail")},
		{28, 59, "mem.vmstat.compact_pagemigrate_failed", u64, counter, count, m.value("compact_pagemigrate_failed")},
		{28, 60, "mem.vmstat.compact_pages_moved", u64, counter, count, m.value("compact_pages_moved")},
		{28, 61, "mem.vmstat.compact_stall", u64, counter, count, m.value("compact_stall")},
		{28, 62, "mem.vmstat.compact_success", u64, counter, count, m.value("compact_success")},
		{28, 63, "mem.vmstat.pgalloc_dma32", u64, counter, count, m.value("pgalloc_dma32")},
		{28, 64, "mem.vmstat.pgalloc_movable", u64, counter, count, m.value("pgalloc_movable")},
		{28, 65, "mem.vmstat.pgrefill_dma32", u64, counter, count, m.value("pgrefill_dma32")},
		{28, 66, "mem.vmstat.pgrefill_movable", u64, counter, count, m.value("pgrefill_movable")},
		{28, 67, "mem.vmstat.pgscan_direct_dma32", u64, counter, count, m.value("pgscan_direct_dma32")},
		{28, 68, "mem.vmstat.pgscan_direct_movable", u64, counter, count, m.value("pgscan_direct_movable")},
		{28, 69, "mem.vmstat.pgscan_kswapd_dma32", u64, counter, count, m.value("pgscan_kswapd_dma32")},
		{28, 70, "mem.vmstat.pgscan_kswapd_movable", u64, counter, count, m.value("pgscan_kswapd_movable")},
		{28, 71, "mem.vmstat.pgsteal_dma32", u64, counter, count, m.value("pgsteal_dma32")},
		{28, 72, "mem.vmstat.pgsteal_movable", u64, counter, count, m.value("pgsteal_movable")},
		{28, 73, "mem.vmstat.thp_fault_alloc", u64, counter, count, m.value("thp_fault_alloc")},
		{28, 74, "mem.vmstat.thp_fault_fallback", u64, counter, count, m.value("thp_fault_fallback")},
		{28, 75, "mem.vmstat.thp_collapse_alloc", u64, counter, count, m.value("thp_collapse_alloc")},
		{28, 76, "mem.vmstat.thp_collapse_alloc_failed", u64, counter, count, m.value("thp_collapse_alloc_failed")},
		{28, 77, "mem.vmstat.thp_split", u64, counter, count, m.orSum("thp_split", "thp_split_page", "thp_split_page_failed")},
		{28, 78, "mem.vmstat.unevictable_pgs_cleared", u64, counter, count, m.value("unevictable_pgs_cleared")},
		{28, 79, "mem.vmstat.unevictable_pgs_culled", u64, counter, count, m.value("unevictable_pgs_culled")},
		{28, 80, "mem.vmstat.unevictable_pgs_mlocked", u64, counter, count, m.value("unevictable_pgs_mlocked")},
		{28, 81, "mem.vmstat.unevictable_pgs_mlockfreed", u64, counter, count, m.value("unevictable_pgs_mlockfreed")},
		{28, 82, "mem.vmstat.unevictable_pgs_munlocked", u64, counter, count, m.value("unevictable_pgs_munlocked")},
		{28, 83, "mem.vmstat.unevictable_pgs_rescued", u64, counter, count, m.value("unevictable_pgs_rescued")},
		{28, 84, "mem.vmstat.unevictable_pgs_scanned", u64, counter, count, m.value("unevictable_pgs_scanned")},
		{28, 85, "mem.vmstat.unevictable_pgs_stranded", u64, counter, count, m.value("unevictable_pgs_stranded")},
		{28, 86, "mem.vmstat.zone_reclaim_failed", u64, counter, count, m.value("zone_reclaim_failed")},
		{28, 87, "mem.vmstat.kswapd_low_wmark_hit_quickly", u64, counter, count, m.value("kswapd_low_wmark_hit_quickly")},
		{28, 88, "mem.vmstat.kswapd_high_wmark_hit_quickly", u64, counter, count, m.value("kswapd_high_wmark_hit_quickly")},
		{28, 89, "mem.vmstat.kswapd_skip_congestion_wait", u64, counter, count, m.value("kswapd_skip_congestion_wait")},
		{28, 90, "mem.vmstat.nr_anon_transparent_hugepages", u64, instant, count, m.value("nr_anon_transparent_hugepages")},
		{28, 91, "mem.vmstat.nr_dirtied", u64, counter, count, m.value("nr_dirtied")},
		{28, 92, "mem.vmstat.nr_dirty_background_threshold", u64, instant, count, m.value("nr_dirty_background_threshold")},
		{28, 93, "mem.vmstat.nr_dirty_threshold", u64, instant, count, m.value("nr_dirty_threshold")},
		{28, 94, "mem.vmstat.nr_written", u64, counter, count, m.value("nr_written")},
		{28, 95, "mem.vmstat.numa_foreign", u64, counter, count, m.value("numa_foreign")},
		{28, 96, "mem.vmstat.numa_hit", u64, counter, count, m.value("numa_hit")},
		{28, 97, "mem.vmstat.numa_interleave", u64, counter, count, m.value("numa_interleave")},
		{28, 98, "mem.vmstat.numa_local", u64, counter, count, m.value("numa_local")},
		{28, 99, "mem.vmstat.numa_miss", u64, counter, count, m.value("numa_miss")},
		{28, 100, "mem.vmstat.numa_other", u64, counter, count, m.value("numa_other")},
		{28, 101, "mem.vmstat.thp_zero_page_alloc", u64, counter, count, m.value("thp_zero_page_alloc")},
		{28, 102, "mem.vmstat.thp_zero_page_alloc_failed", u64, counter, count, m.value("thp_zero_page_alloc_failed")},
		// PCP has swapped these two.
		{28, 103, "mem.vmstat.balloon_deflate", u64, counter, count, m.value("balloon_inflate")},
		{28, 104, "mem.vmstat.balloon_inflate", u64, counter, count, m.value("balloon_deflate")},

		{28, 105, "mem.vmstat.balloon_migrate", u64, counter, count, m.value("balloon_migrate")},
		{28, 106, "mem.vmstat.compact_daemon_wake", u64, counter, count, m.value("compact_daemon_wake")},
		{28, 107, "mem.vmstat.compact_free_scanned", u64, counter, count, m.value("compact_free_scanned")},
		{28, 108, "mem.vmstat.compact_migrate_scanned", u64, counter, count, m.value("compact_migrate_scanned")},
		{28, 109, "mem.vmstat.drop_pagecache", u64, counter, count, m.value("drop_pagecache")},
		{28, 110, "mem.vmstat.drop_slab", u64, counter, count, m.value("drop_slab")},
		{28, 111, "mem.vmstat.nr_free_cma", u64, instant, count, m.value("nr_free_cma")},
		{28, 112, "mem.vmstat.nr_pages_scanned", u64, counter, count, m.value("nr_pages_scanned")},
		{28, 113, "mem.vmstat.nr_vmscan_immediate_reclaim", u64, counter, count, m.value("nr_vmscan_immediate_reclaim")},
		{28, 114, "mem.vmstat.numa_pages_migrated", u64, counter, count, m.value("numa_pages_migrated")},
		{28, 115, "mem.vmstat.numa_pte_updates", u64, counter, count, m.value("numa_pte_updates")},
		{28, 116, "mem.vmstat.pglazyfreed", u64, counter, count, m.value("pglazyfreed")},
		{28, 117, "mem.vmstat.pgmigrate_fail", u64, counter, count, m.value("pgmigrate_fail")},
		{28, 118, "mem.vmstat.pgmigrate_success", u64, counter, count, m.value("pgmigrate_success")},
		{28, 119, "mem.vmstat.thp_deferred_split_page", u64, counter, count, m.value("thp_deferred_split_page")},
		{28, 120, "mem.vmstat.thp_split_page", u64, counter, count, m.value("thp_split_page")},
		{28, 121, "mem.vmstat.thp_split_page_failed", u64, counter, count, m.value("thp_split_page_failed")},
		{28, 122, "mem.vmstat.thp_split_pmd", u64, counter, count, m.value("thp_split_pmd")},
		{28, 123, "mem.vmstat.workingset_activate", u64, counter, count, m.value("workingset_activate")},
		{28, 124, "mem.vmstat.workingset_nodereclaim", u64, counter, count, m.value("workingset_nodereclaim")},
		{28, 125, "mem.vmstat.workingset_refault", u64, counter, count, m.value("workingset_refault")},
		{28, 126, "mem.vmstat.compact_isolated", u64, counter, count, m.value("compact_isolated")},
		{28, 127, "mem.vmstat.nr_shmem_hugepages", u64, instant, count, m.value("nr_shmem_hugepages")},
		{28, 128, "mem.vmstat.nr_shmem_pmdmapped", u64, instant, count, m.value("nr_shmem_pmdmapped")},
		{28, 129, "mem.vmstat.nr_zone_inactive_anon", u64, instant, count, m.value("nr_zone_inactive_anon")},
		{28, 130, "mem.vmstat.nr_zone_active_anon", u64, instant, count, m.value("nr_zone_active_anon")},
		{28, 131, "mem.vmstat.nr_zone_inactive_file", u64, instant, count, m.value("nr_zone_inactive_file")},
		{28, 132, "mem.vmstat.nr_zone_active_file", u64, instant, count, m.value("nr_zone_active_file")},
		{28, 133, "mem.vmstat.nr_zone_unevictable", u64, instant, count, m.value("nr_zone_unevictable")},
		{28, 134, "mem.vmstat.nr_zone_write_pending", u64, instant, count, m.value("nr_zone_write_pending")},
		{28, 135, "mem.vmstat.nr_zspages", u64, instant, count, m.value("nr_zspages")},
		{28, 136, "mem.vmstat.thp_file_alloc", u64, counter, count, m.value("thp_file_alloc")},
		{28, 137, "mem.vmstat.thp_file_mapped", u64, counter, count, m.value("thp_file_mapped")},
		{28, 138, "mem.vmstat.pgsteal_kswapd_dma", u64, counter, count, m.value("pgsteal_kswapd_dma")},
		{28, 139, "mem.vmstat.pgsteal_kswapd_dma32", u64, counter, count, m.value("pgsteal_kswapd_dma32")},
		{28, 140, "mem.vmstat.pgsteal_kswapd_normal", u64, counter, count, m.value("pgsteal_kswapd_normal")},
		{28, 141, "mem.vmstat.pgsteal_kswapd_movable", u64, counter, count, m.value("pgsteal_kswapd_movable")},
		{28, 142, "mem.vmstat.pgsteal_direct_dma", u64, counter, count, m.value("pgsteal_direct_dma")},
		{28, 143, "mem.vmstat.pgsteal_direct_dma32", u64, counter, count, m.value("pgsteal_direct_dma32")},
		{28, 144, "mem.vmstat.pgsteal_direct_normal", u64, counter, count, m.value("pgsteal_direct_normal")},
		{28, 145, "mem.vmstat.pgsteal_direct_movable", u64, counter, count, m.value("pgsteal_direct_movable")},
		{28, 146, "mem.vmstat.pgscan_direct", u64, counter, count, m.value("pgscan_direct")},
		{28, 147, "mem.vmstat.pgscan_direct_throttle", u64, counter, count, m.value("pgscan_direct_throttle")},
		{28, 148, "mem.vmstat.pgscan_kswapd", u64, counter, count, m.value("pgscan_kswapd")},
		{28, 149, "mem.vmstat.pgsteal_direct", u64, counter, count, m.value("pgsteal_direct")},
		{28, 150, "mem.vmstat.pgsteal_kswapd", u64, counter, count, m.value("pgsteal_kswapd")},
		{28, 151, "mem.vmstat.numa_huge_pte_updates", u64, counter, count, m.value("numa_huge_pte_updates")},
		{28, 152, "mem.vmstat.numa_hint_faults", u64, counter, count, m.value("numa_hint_faults")},
		{28, 153, "mem.vmstat.numa_hint_faults_local", u64, counter, count, m.value("numa_hint_faults_local")},
		{28, 154, "mem.vmstat.allocstall_dma", u64, counter, count, m.value("allocstall_dma")},
		{28, 155, "mem.vmstat.allocstall_dma32", u64, counter, count, m.value("allocstall_dma32")},
		{28, 156, "mem.vmstat.allocstall_high", u64, counter, count, m.value("allocstall_high")},
		{28, 157, "mem.vmstat.allocstall_movable", u64, counter, count, m.value("allocstall_movable")},
		{28, 158, "mem.vmstat.allocstall_normal", u64, counter, count, m.value("allocstall_normal")},
		{28, 159, "mem.vmstat.compact_daemon_free_scanned", u64, counter, count, m.value("compact_daemon_free_scanned")},
		{28, 160, "mem.vmstat.compact_daemon_migrate_scanned", u64, counter, count, m.value("compact_daemon_migrate_scanned")},
		{28, 161, "mem.vmstat.nr_file_hugepages", u64, instant, count, m.value("nr_file_hugepages")},
		{28, 162, "mem.vmstat.nr_file_pmdmapped", u64, instant, count, m.value("nr_file_pmdmapped")},
		{28, 163, "mem.vmstat.nr_foll_pin_acquired", u64, instant, count, m.value("nr_foll_pin_acquired")},
		{28, 164, "mem.vmstat.nr_foll_pin_released", u64, instant, count, m.value("nr_foll_pin_released")},
		{28, 165, "mem.vmstat.nr_kernel_misc_reclaimable", u64, instant, count, m.value("nr_kernel_misc_reclaimable")},
		{28, 166, "mem.vmstat.oom_kill", u64, counter, count, m.value("oom_kill")},
		{28, 167, "mem.vmstat.pgsteal_file", u64, counter, count, m.value("pgsteal_file")},
		{28, 168, "mem.vmstat.swap_ra", u64, counter, count, m.value("swap_ra")},
		{28, 169, "mem.vmstat.swap_ra_hit", u64, counter, count, m.value("swap_ra_hit")},
		{28, 170, "mem.vmstat.thp_fault_fallback_charge", u64, counter, count, m.value("thp_fault_fallback_charge")},
		{28, 171, "mem.vmstat.thp_split_pud", u64, counter, count, m.value("thp_split_pud")},
		{28, 172, "mem.vmstat.thp_swpout", u64, counter, count, m.value("thp_swpout")},
		{28, 173, "mem.vmstat.thp_swpout_fallback", u64, counter, count, m.value("thp_swpout_fallback")},
		{28, 174, "mem.vmstat.workingset_nodes", u64, counter, count, m.value("workingset_nodes")},
		{28, 175, "mem.vmstat.workingset_restore", u64, counter, count, m.value("workingset_restore")},
		{28, 176, "mem.vmstat.pgscan_direct_total", u64, counter, count, m.total("pgscan_direct")},
		{28, 177, "mem.vmstat.pgscan_kswapd_total", u64, counter, count, m.total("pgscan_kswapd")},
		{28, 178, "mem.vmstat.pgsteal_total", u64, counter, count, m.total("pgsteal_")},
		{28, 179, "mem.vmstat.pgsteal_anon", u64, counter, count, m.value("pgsteal_anon")},
		{28, 180, "mem.vmstat.pgscan_anon", u64, counter, count, m.value("pgscan_anon")},
		{28, 181, "mem.vmstat.pgscan_file", u64, counter, count, m.value("pgscan_file")},
		{28, 182, "mem.vmstat.pgdemote_direct", u64, counter, count, m.value("pgdemote_direct")},
		{28, 183, "mem.vmstat.pgdemote_khugepaged", u64, counter, count, m.value("pgdemote_khugepaged")},
		{28, 184, "mem.vmstat.pgdemote_kswapd", u64, counter, count, m.value("pgdemote_kswapd")},
		{28, 185, "mem.vmstat.pgdemote_total", u64, counter, count, m.total("pgdemote_")},
		{28, 186, "mem.vmstat.pgpromote_candidate", u64, counter, count, m.value("pgpromote_candidate")},
		{28, 187, "mem.vmstat.pgpromote_success", u64, counter, count, m.value("pgpromote_success")},
		{28, 188, "mem.vmstat.pgscan_khugepaged", u64, counter, count, m.value("pgscan_khugepaged")},
		{28, 189, "mem.vmstat.pgsteal_khugepaged", u64, counter, count, m.value("pgsteal_khugepaged")},
	})
}
