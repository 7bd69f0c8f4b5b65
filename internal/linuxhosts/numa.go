package linuxhosts

import (
	"fmt"
)

// NUMA returns a host of Linux 6. It has the given number of nodes with CPUs, and
// one more with memory only (CXL). Of the CPUs every 37th is offline, except the
// first. The lower half of the CPU numbers are the first threads of all cores,
// node by node; the upper half are the second threads.
func NUMA(nodes, cpus int) Files {
	online := onlineOf(cpus)
	nodeOf := func(cpu int) int { return cpu / (cpus / nodes / 2) % nodes }
	f := Files{
		"proc/stat":                       stat(online),
		"proc/cpuinfo":                    cpuinfo(online, nodeOf),
		"proc/interrupts":                 interrupts(online, 0),
		"proc/softirqs":                   softirqs(cpus),
		"proc/zoneinfo":                   zoneinfo(nodes+1, online),
		"proc/buddyinfo":                  buddyinfo(nodes + 1),
		"proc/vmstat":                     keyed("%s %d", vmstat, Large),
		"proc/meminfo":                    keyed("%s: %d kB", meminfo, Large) + "HugePages_Total: 512\nHugePages_Free: 500\nHugePages_Rsvd: 7\nHugePages_Surp: 1\nHugepagesize: 1048576 kB\n",
		"sys/devices/system/node/has_cpu": fmt.Sprintf("0-%d\n", nodes-1),
	}
	for n := range nodes + 1 {
		dir := fmt.Sprintf("sys/devices/system/node/node%d/", n)
		f[dir+"meminfo"] = keyed(fmt.Sprintf("Node %d %%s: %%d kB", n), nodeMeminfo, Large*uint64(n+1)) +
			fmt.Sprintf("Node %d HugePages_Total: %d\nNode %[1]d HugePages_Free: 1\nNode %[1]d HugePages_Surp: 0\n", n, 128*(n+1))
		f[dir+"numastat"] = keyed("%s %d", "numa_hit numa_miss numa_foreign interleave_hit local_node other_node", Huge-10*uint64(n))
		f[dir+"distance"] = "10 21 21 21 17\n"
	}
	for c := range cpus {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", c)
		f[fmt.Sprintf("sys/devices/system/node/node%d/cpu%d/", nodeOf(c), c)] = ""
		if c > 0 { // the first CPU cannot be switched off
			f[dir+"online"] = "0\n"
		}
	}
	for _, c := range online {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu%d/", c)
		if c > 0 {
			f[dir+"online"] = "1\n"
		}
		f[dir+"cpufreq/scaling_cur_freq"] = fmt.Sprintf("%d\n", 2000000+c)
		f[dir+"thermal_throttle/core_throttle_count"] = fmt.Sprintf("%d\n", c)
	}
	return f
}

// onlineOf returns the CPUs that are online.
func onlineOf(cpus int) (online []int) {
	for c := range cpus {
		if c == 0 || c%37 != 0 {
			online = append(online, c)
		}
	}
	return online
}

func stat(online []int) string {
	var all [10]uint64
	var t text
	for _, c := range online {
		fmt.Fprintf(&t, "cpu%d", c)
		for i := range all {
			// The times of guests are part of user and nice.
			n := Large/uint64(i+1) + uint64(c)
			all[i] += n
			fmt.Fprintf(&t, " %d", n)
		}
		t.WriteByte('\n')
	}
	line := "cpu "
	for _, n := range all {
		line += fmt.Sprintf(" %d", n)
	}
	t.line("intr %d 7 0 0 %d", uint64(Huge), uint64(Large))
	t.line("ctxt %d\nbtime 1700000000\nprocesses 4294967303\nprocs_running 257\nprocs_blocked 3", uint64(Huge-1))
	return line + "\n" + t.String()
}

func cpuinfo(online []int, nodeOf func(int) int) string {
	var t text
	for _, c := range online {
		t.line("processor\t: %d\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: EPYC of node %d\nstepping\t: 1", c, nodeOf(c))
		t.line("cpu MHz\t\t: %d.500\ncache size\t: 1024 KB\nphysical id\t: %d\nflags\t\t: fpu vme avx512f\nbogomips\t: 4800.%02d\nclflush size\t: 64\ncache_alignment\t: 64\n", 2000+c, nodeOf(c), c%100)
	}
	return t.String()
}

// Interrupts returns /proc/interrupts of the host that NUMA returns, with a device that
// has the given number of queues. Each queue has an interrupt.
func Interrupts(cpus, queues int) Files {
	return Files{"proc/interrupts": interrupts(onlineOf(cpus), queues)}
}

// interrupts returns /proc/interrupts, with a column for each online CPU.
func interrupts(online []int, queues int) string {
	var t text
	t.WriteString("     ") // names are padded to the width of the highest interrupt number
	for _, c := range online {
		fmt.Fprintf(&t, " %10s", fmt.Sprint("CPU", c))
	}
	t.WriteByte('\n')
	lines := [][2]string{{"0", "IR-IO-APIC    2-edge      timer"}, {"8", "IR-IO-APIC    8-edge      rtc0"},
		{"1024", "PCI-MSIX-0000:01:00.0   0-edge      nvme0q0"}, {"1025", "PCI-MSIX-0000:01:00.0   1-edge      nvme0q1"},
		{"NMI", "Non-maskable interrupts"}, {"LOC", "Local timer interrupts"}, {"PIW", "Posted-interrupt wakeup event"}}
	for q := range queues {
		lines = append(lines, [2]string{fmt.Sprint(2000 + q), fmt.Sprintf("PCI-MSIX-0000:02:00.0 %3d-edge      nvme1q%d", q, q)})
	}
	for i, l := range lines {
		fmt.Fprintf(&t, "%4s:", l[0])
		for _, c := range online {
			fmt.Fprintf(&t, " %10d", uint64(c)+uint64(i)*1e9)
		}
		t.line("  %s", l[1])
	}
	t.line(" ERR:         11\n MIS:         12")
	return t.String()
}

// softirqs returns /proc/softirqs, with a column for each possible CPU.
func softirqs(cpus int) string {
	var t text
	fmt.Fprintf(&t, "%20s", "")
	for c := range cpus {
		fmt.Fprintf(&t, " %10s", fmt.Sprint("CPU", c))
	}
	t.WriteByte('\n')
	for i, name := range []string{"HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"} {
		fmt.Fprintf(&t, "%12s:", name)
		for c := range cpus {
			fmt.Fprintf(&t, " %10d", uint64(c)+uint64(i)*4e8)
		}
		t.WriteByte('\n')
	}
	return t.String()
}

func zoneinfo(nodes int, online []int) string {
	var t text
	for n := range nodes {
		zones := []string{"Normal", "Movable", "Device"}
		if n == 0 {
			zones = []string{"DMA", "DMA32", "Normal", "Movable", "Device"}
		}
		for z, zone := range zones {
			first := Large*uint64(n+1) + 1000*uint64(z)
			t.line("Node %d, zone %8s", n, zone)
			if z == 0 {
				t.line("  per-node stats")
				t.WriteString(keyed("      %-12s %d", zoneinfoNode, first))
			}
			present := first
			if zone == "Device" {
				present = 0 // no memory: the kernel writes no further lines
			}
			t.line("  pages free     %d\n        boost    0\n        min      %d\n        low      %d\n        high     %d\n        promo    %d", first, first+1, first+2, first+3, first+4)
			t.line("        spanned  %d\n        present  %d\n        managed  %d\n        cma      0", first+5, present, first+6)
			t.line("        protection: (0, %d, %d, %d, %d)", first+7, first+8, first+9, first+10)
			if present == 0 {
				continue
			}
			t.WriteString(keyed("      %-12s %d", zoneinfoZone, first+100))
			t.line("  pagesets")
			for _, c := range online {
				t.line("    cpu: %d\n              count:    %d\n              high:     2\n              batch:    63\n              high_min: 1\n              high_max: 2", c, 900+c)
				t.line("  vm stats threshold: 125")
			}
			t.line("  node_unreclaimable:  0\n  start_pfn:           %d", first)
		}
	}
	return t.String()
}

func buddyinfo(nodes int) string {
	var t text
	for n := range nodes {
		for z, zone := range []string{"DMA", "DMA32", "Normal"} {
			if n > 0 && zone != "Normal" {
				continue
			}
			fmt.Fprintf(&t, "Node %d, zone %8s ", n, zone)
			for order := range 11 {
				fmt.Fprintf(&t, "%6d ", (n+1)*1000000+z*1000+order)
			}
			t.WriteByte('\n')
		}
	}
	return t.String()
}

// Names that Linux 6.12 writes.
const (
	meminfo = `MemTotal MemFree MemAvailable Buffers Cached SwapCached Active Inactive Active(anon) Inactive(anon)
		Active(file) Inactive(file) Unevictable Mlocked SwapTotal SwapFree Zswap Zswapped Dirty Writeback AnonPages Mapped
		Shmem KReclaimable Slab SReclaimable SUnreclaim KernelStack PageTables SecPageTables NFS_Unstable Bounce
		WritebackTmp CommitLimit Committed_AS VmallocTotal VmallocUsed VmallocChunk Percpu HardwareCorrupted AnonHugePages
		ShmemHugePages ShmemPmdMapped FileHugePages FilePmdMapped Unaccepted DirectMap4k DirectMap2M DirectMap1G`
	nodeMeminfo = `MemTotal MemFree MemUsed SwapCached Active Inactive Active(anon) Inactive(anon) Active(file) Inactive(file)
		Unevictable Mlocked Dirty Writeback FilePages Mapped AnonPages Shmem KernelStack PageTables SecPageTables NFS_Unstable
		Bounce WritebackTmp KReclaimable Slab SReclaimable SUnreclaim AnonHugePages ShmemHugePages ShmemPmdMapped
		FileHugePages FilePmdMapped Unaccepted`
	zoneinfoNode = `nr_inactive_anon nr_active_anon nr_inactive_file nr_active_file nr_unevictable nr_slab_reclaimable
		nr_slab_unreclaimable nr_isolated_anon nr_isolated_file workingset_nodes workingset_refault_anon
		workingset_refault_file workingset_activate_anon workingset_activate_file workingset_restore_anon
		workingset_restore_file workingset_nodereclaim nr_anon_pages nr_mapped nr_file_pages nr_dirty nr_writeback
		nr_writeback_temp nr_shmem nr_shmem_hugepages nr_shmem_pmdmapped nr_file_hugepages nr_file_pmdmapped
		nr_anon_transparent_hugepages nr_vmscan_write nr_vmscan_immediate_reclaim nr_dirtied nr_written
		nr_throttled_written nr_kernel_misc_reclaimable nr_foll_pin_acquired nr_foll_pin_released nr_kernel_stack
		nr_page_table_pages nr_sec_page_table_pages nr_swapcached pgpromote_success pgpromote_candidate pgdemote_kswapd`
	zoneinfoZone = `nr_free_pages nr_zone_inactive_anon nr_zone_active_anon nr_zone_inactive_file nr_zone_active_file
		nr_zone_unevictable nr_zone_write_pending nr_mlock nr_bounce nr_zspages nr_free_cma nr_unaccepted numa_hit numa_miss
		numa_foreign numa_interleave numa_local numa_other`
)

var vmstat = zoneinfoZone + " " + zoneinfoNode + ` nr_dirty_threshold nr_dirty_background_threshold pgpgin pgpgout pswpin
	pswpout pgalloc_dma pgalloc_dma32 pgalloc_normal pgalloc_movable pgalloc_device allocstall_dma allocstall_dma32
	allocstall_normal allocstall_movable pgskip_normal pgfree pgactivate pgdeactivate pglazyfree pgfault pgmajfault
	pglazyfreed pgrefill pgreuse pgsteal_kswapd pgsteal_direct pgsteal_khugepaged pgscan_kswapd pgscan_direct
	pgscan_khugepaged pgscan_direct_throttle pgscan_anon pgscan_file pgsteal_anon pgsteal_file zone_reclaim_failed
	pginodesteal slabs_scanned kswapd_inodesteal kswapd_low_wmark_hit_quickly kswapd_high_wmark_hit_quickly pageoutrun
	pgrotated drop_pagecache drop_slab oom_kill numa_pte_updates numa_huge_pte_updates numa_hint_faults
	numa_hint_faults_local numa_pages_migrated pgmigrate_success pgmigrate_fail thp_migration_success compact_stall
	compact_fail compact_success htlb_buddy_alloc_success unevictable_pgs_culled thp_fault_alloc thp_split_page thp_split_page_failed
	thp_zero_page_alloc thp_swpout balloon_inflate swap_ra swap_ra_hit ksm_swpin_copy cow_ksm zswpin zswpout zswpwb
	direct_map_level2_splits nr_unstable`
