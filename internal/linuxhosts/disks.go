package linuxhosts

import "fmt"

// A Kernel is a version of Linux that introduced other formats.
type Kernel int

const (
	Linux2_6_20 Kernel = iota // partitions have 4 numbers in diskstats
	Linux3_10                 // 11 numbers
	Linux4_18                 // 15: discards
	Linux5_5                  // 17: flushes
	Linux6_12
)

// Disks returns a host with sd SCSI disks, of which every tenth has a partition,
// and with all other kinds of block devices, but those that pmdalinux takes for others.
func Disks(k Kernel, sd int) Files {
	f := Files{}
	var stats, sizes text
	sizes.line("major minor  #blocks  name\n")
	n := uint64(0)
	add := func(major int, name string, partition bool) {
		n++
		minor := int(n % 256)
		fmt.Fprintf(&stats, "%4d %7d %s", major, minor, name)
		fields := map[Kernel]int{Linux2_6_20: 11, Linux3_10: 11, Linux4_18: 15}[k]
		switch {
		case k == Linux2_6_20 && partition:
			fields = 4
		case fields == 0:
			fields = 17
		}
		for i := range fields {
			v := n*1000 + uint64(i)
			if n%50 == 0 {
				v += Huge - 1e6
			}
			switch i {
			case 3, 7, 8, 9, 10, 14, 16: // times and requests in flight
				v %= 1 << 32
			}
			if fields == 4 {
				v %= 1 << 32
			}
			fmt.Fprintf(&stats, " %d", v)
		}
		stats.WriteByte('\n')
		sizes.line("%4d %8d %10d %s", major, minor, n*1048576, name)
	}
	for i := range sd {
		name := "sd" + letters(i)
		add(8, name, false)
		if i%10 == 0 {
			add(8, name+"1", true)
		}
		f["sys/block/"+name+"/queue/scheduler"] = "none [mq-deadline] kyber bfq\n"
		// Two paths lead to each disk.
		f["sys/block/"+name+"/device/wwid"] = fmt.Sprintf("naa.6005076300%06d\n", i/2)
	}
	for _, d := range []struct {
		major      int
		name       string
		partitions []string
	}{
		{259, "nvme0n1", []string{"nvme0n1p1", "nvme0n1p128"}}, {259, "nvme10n2", nil},
		{179, "mmcblk0", []string{"mmcblk0p1"}}, {179, "mmcblk0boot0", nil},
		{253, "dm-0", nil}, {253, "dm-1", nil}, {253, "dm-10", nil},
		{9, "md0", nil}, {9, "md127", nil}, {252, "zram0", nil}, {252, "zram1", nil},
		{7, "loop0", []string{"loop0p1"}}, {1, "ram0", nil}, {11, "sr0", nil},
		{251, "rbd0", []string{"rbd0p1"}}, {43, "nbd0", []string{"nbd0p2"}}, {43, "nbd15", nil},
		{104, "cciss/c0d0", []string{"cciss/c0d0p1"}}, {254, "vda", []string{"vda1"}}, {202, "xvda", []string{"xvda1"}},
		{94, "dasda", []string{"dasda1"}}, {3, "hda", []string{"hda1"}},
		{259, "pmem1s", nil},
	} {
		add(d.major, d.name, false)
		for _, p := range d.partitions {
			add(d.major, p, true)
		}
	}
	f["proc/diskstats"], f["proc/partitions"] = stats.String(), sizes.String()
	f["sys/block/nvme0n1/queue/scheduler"] = "[none] mq-deadline\n"
	f["sys/block/nvme0n1/wwid"] = "eui.0025385b71b00a2c\n"
	f["sys/block/nvme10n2/wwid"] = "nvme.144d-5334-53616d73756e67-00000001\n"
	f["sys/block/cciss!c0d0/queue/scheduler"] = "noop deadline [cfq]\n"
	f["sys/block/dm-0/dm/name"] = "vg0-root\n"
	f["sys/block/dm-1/dm/name"] = "mpath--a with blank\n"
	f["sys/block/dm-10/dm/name"] = "docker-253:1-1051828-pool\n"
	f["dev/md/data"] = "-> ../md127"
	f["sys/block/zram0/disksize"] = "4294967296\n"
	f["sys/block/zram0/mm_stat"] = " 8589934592  1073741824  1082130432        0 1090519040    12345       77        8        9\n"
	f["sys/block/zram0/io_stat"] = "       1        2        3        4\n"
	f["sys/block/zram0/bd_stat"] = "       5        6        7\n"
	f["sys/block/zram1/disksize"] = "0\n"
	f["sys/block/zram1/mm_stat"] = "       0        0        0        0        0        0        0        0\n" // before Linux 5.12
	return f
}

// letters returns the letters after sd in the name of a disk: a, z, aa, zz, aaa.
func letters(i int) (name string) {
	for ; i >= 0; i = i/26 - 1 {
		name = string(rune('a'+i%26)) + name
	}
	return name
}
