package peertest

import (
	"regexp"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/linuxhosts"
)

// Composed hosts give the same values to both. pmdalinux takes CPUs behind one
// that is offline for others, is at a loss with ERR and MIS where interrupts have
// four digits, has 32 bits of discards and flushes of paths and of each disk's
// total_rawactive, and does not look for the scheduler of a disk with a slash in
// its name.
func TestLinuxHosts(t *testing.T) {
	const (
		ofNUMA = `kernel\.percpu\.(intr|interrupts)|kernel\.all\.interrupts\.(missed|errors)|hinv\.cpu\.(vendor|model|model_name|stepping|flags|cache|cache_alignment|bogomips|clock)`
		// Without mdadm, disk.md.status of pmdalinux is -1, or 126 << 8 on a busy machine.
		// TestLinuxRecorded has it.
		ofDisks = `disk\.wwid\.(discard|discard_merge|blkdiscard|flush)|disk\.dev\.scheduler|disk\.all\.total_rawactive|disk\.md\.status`
		// No value here, an error there.
		ofShort = `(disk\.partitions|zram)\.(.*_merge|avactive|aveq|inflight|.*_rawactive)`
	)
	for name, tt := range map[string]struct {
		files  linuxhosts.Files
		differ string
	}{
		"NUMA":         {linuxhosts.NUMA(4, 256), ofNUMA},
		"disks 2.6.20": {linuxhosts.Disks(linuxhosts.Linux2_6_20, 300), ofDisks + "|" + ofShort},
		"disks 3.10":   {linuxhosts.Disks(linuxhosts.Linux3_10, 300), ofDisks},
		"disks 4.18":   {linuxhosts.Disks(linuxhosts.Linux4_18, 300), ofDisks},
		"disks 6.12":   {linuxhosts.Disks(linuxhosts.Linux6_12, 300), ofDisks},
		"net 3.10":     {linuxhosts.Network(linuxhosts.Linux3_10, 500), `0`},
		"net 5.5":      {linuxhosts.Network(linuxhosts.Linux5_5, 500), `0`},
		"net 6.12":     {linuxhosts.Network(linuxhosts.Linux6_12, 500), `0`},
	} {
		t.Run(name, func(t *testing.T) {
			root := pmdatest.Tree(t, tt.files)
			compareLinux(t, root, regexp.MustCompile(notAgreed.String()+`|^(`+tt.differ+`)$`))
		})
	}
}

// pmdaproc has the groups of hierarchies of version 1 only if there is none of
// version 2.
func TestProcHosts(t *testing.T) {
	for name, tt := range map[string]struct {
		files  linuxhosts.Files
		differ string
	}{
		"2.6.20, version 1": {linuxhosts.Processes(linuxhosts.Linux2_6_20, 1), `0`},
		"3.10, version 1":   {linuxhosts.Processes(linuxhosts.Linux3_10, 1), `0`},
		"5.5, hybrid":       {linuxhosts.Processes(linuxhosts.Linux5_5, linuxhosts.Hybrid), `cgroup\..*`},
		"6.12, version 2":   {linuxhosts.Processes(linuxhosts.Linux6_12, 2), `0`},
	} {
		t.Run(name, func(t *testing.T) {
			compareProc(t, pmdatest.Tree(t, tt.files), regexp.MustCompile(`^(proc\.psinfo\.ttyname|`+tt.differ+`)$`))
		})
	}
}
