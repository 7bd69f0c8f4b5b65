package linux

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/linuxhosts"
)

// Some values of composed hosts. cmd/pmcd/tests/peertest compares all values with those of
// pmdalinux.
func TestHosts(t *testing.T) {
	for name, tt := range map[string]struct {
		files linuxhosts.Files
		want  map[string]string // by metric or, of one instance, metric[instance]
	}{
		"NUMA": {linuxhosts.NUMA(4, 256), map[string]string{
			"hinv.ncpu":                              "250",
			"hinv.nnode":                             "5",
			"kernel.percpu.cpu.user[cpu255]":         "85899348470",
			"kernel.all.cpu.user":                    "21474836798630",
			"kernel.pernode.cpu.user[node0]":         "5411658842360",
			"kernel.pernode.cpu.user[node4]":         "0", // has memory only
			"kernel.all.intr":                        "18446744073709551614",
			"kernel.percpu.interrupts[1025::cpu255]": "3000000255",
			"kernel.percpu.softirqs[RCU::cpu37]":     "3600000037",
			"kernel.all.interrupts.errors":           "11",
			"hinv.map.cpu_node[cpu128]":              "0",
			"hinv.cpu.model_name[cpu255]":            "EPYC of node 3",
			"mem.numa.util.total[node4]":             "42949672960",
			"mem.numa.alloc.hit[node3]":              "18446744073709551584",
		}},
		"disks 2.6.20": {linuxhosts.Disks(linuxhosts.Linux2_6_20, 300), map[string]string{
			"hinv.ndisk":                       "313",
			"disk.partitions.read[sda1]":       "2000",
			"disk.partitions.blkread[sda1]":    "2001",
			"disk.partitions.write[sda1]":      "2002",
			"disk.partitions.blkwrite[sda1]":   "2003",
			"disk.partitions.read_merge[sda1]": "",
			"disk.dev.blkread[sdkn]":           "330002",
		}},
		"disks 6.12": {linuxhosts.Disks(linuxhosts.Linux6_12, 300), map[string]string{
			"disk.dev.read[sdaa]":               "30000",
			"disk.dev.read[cciss/c0d0]":         "354000",
			"disk.dev.scheduler[cciss/c0d0]":    "cfq",
			"disk.dm.read[mpath--a_with_blank]": "339000",
			"disk.md.read[data]":                "342000",
			"hinv.map.scsi_id[nvme0n1]":         "20025385b71b00a2c",
			"disk.dev.capacity[sda]":            "1048576",
		}},
		"net": {linuxhosts.Network(linuxhosts.Linux6_12, 500), map[string]string{
			"hinv.ninterface":                          "518",
			"network.interface.in.bytes[bond0]":        "18446744073709551614",
			"network.interface.out.bytes[veth00001f3]": "77309411845",
			"network.interface.in.bytes[schön]":        "8589934607",
			"network.interface.speed[eth1]":            "",
			"network.tcp.maxconn":                      "18446744073709551615",
			"network.softnet.processed":                "32640",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newHarness(t, Options{Root: pmdatest.Tree(t, tt.files)})
			for _, key := range slices.Sorted(maps.Keys(tt.want)) {
				metric, inst, one := strings.Cut(strings.TrimSuffix(key, "]"), "[")
				got := r.Values(metric)
				if one {
					_, got, _ = strings.Cut(" "+got, " "+inst+"=")
					if i := strings.IndexByte(got, '='); i >= 0 { // up to the next instance
						got = got[:max(0, strings.LastIndexByte(got[:i], ' '))]
					}
				}
				if got != tt.want[key] {
					t.Errorf("%s is %.60q, want %q", key, got, tt.want[key])
				}
			}
		})
	}
}
