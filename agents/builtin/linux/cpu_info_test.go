package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestCPUs(t *testing.T) {
	cpu := func(n string) string { return "sys/devices/system/cpu/cpu" + n + "/" }
	root := pmdatest.Tree(t, map[string]string{
		"proc/stat":                                                  "cpu  6 0 0 0\ncpu0 1 0 0 0\ncpu2 2 0 0 0\ncpu10 3 0 0 0\n", // cpu1 is offline
		"sys/devices/system/node/node0/cpu0/":                        "",
		"sys/devices/system/node/node0/cpu1/":                        "",
		"sys/devices/system/node/node8/cpu2/":                        "",
		"sys/devices/system/node/node8/cpulist":                      "",
		"sys/devices/system/node/node8/online":                       "0\n",
		"sys/devices/system/node/has_cpu":                            "0,8\n",
		cpu("2") + "online":                                          "1\n",
		cpu("0") + "cpufreq/stats/time_in_state":                     "3600000 20\n2400000 10\n1000 x\n1200000 70\n",
		cpu("2") + "cpufreq/cpuinfo_max_freq":                        "3600000\n",
		cpu("2") + "cpufreq/cpuinfo_min_freq":                        "800000\n",
		cpu("2") + "cpufreq/scaling_cur_freq":                        "1234567\n",
		cpu("2") + "thermal_throttle/core_throttle_count":            "4\n",
		cpu("2") + "thermal_throttle/core_throttle_total_time_ms":    "5\n",
		cpu("2") + "thermal_throttle/package_throttle_count":         "6\n",
		cpu("2") + "thermal_throttle/package_throttle_total_time_ms": "7\n",
		// x86: the second block is of cpu2.
		"proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\nstepping\t: 7\ncpu MHz\t\t: 2100.000\ncache size\t: 36608 KB\nflags\t\t: fpu vme\nbogomips\t: 4200.00\ncache_alignment\t: 64\n\n" +
			"processor\t: 2\nmodel name\t: other\ncache size\t: big\nbogomips\t: x\nflags:\n\nprocessor\t: 3\nmodel\t: of no CPU\n",
	})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"kernel.percpu.cpu.user":                  "cpu0=10 cpu2=20 cpu10=30",
		"hinv.ncpu":                               "3",
		"hinv.nnode":                              "2",
		"hinv.node.online":                        "node0=1 node8=0",
		"hinv.map.cpu_num":                        "cpu0=0 cpu2=2 cpu10=10",
		"hinv.map.cpu_node":                       "cpu0=0 cpu2=8",
		"hinv.cpu.online":                         "cpu0=1 cpu2=1 cpu10=1",
		"hinv.cpu.vendor":                         "cpu0=GenuineIntel cpu2=unknown cpu10=unknown",
		"hinv.cpu.model":                          "cpu0=85 cpu2=other cpu10=unknown",
		"hinv.cpu.model_name":                     "cpu0=Intel(R) Xeon(R) cpu2=other cpu10=unknown",
		"hinv.cpu.stepping":                       "cpu0=7 cpu2=unknown cpu10=unknown",
		"hinv.cpu.flags":                          "cpu0=fpu vme cpu2=unknown cpu10=unknown",
		"hinv.cpu.cache":                          "cpu0=36608",
		"hinv.cpu.cache_alignment":                "cpu0=64",
		"hinv.cpu.bogomips":                       "cpu0=4200",
		"hinv.cpu.clock":                          "cpu0=2100 cpu2=1234.567",
		"hinv.cpu.frequency_scaling.count":        "cpu0=180000 cpu2=1234",
		"hinv.cpu.frequency_scaling.time":         "cpu0=100",
		"hinv.cpu.frequency_scaling.max":          "cpu0=3600 cpu2=3600",
		"hinv.cpu.frequency_scaling.min":          "cpu0=1200 cpu2=800",
		"hinv.cpu.thermal_throttle.core.count":    "cpu0=0 cpu2=4 cpu10=0",
		"hinv.cpu.thermal_throttle.core.time":     "cpu0=0 cpu2=5 cpu10=0",
		"hinv.cpu.thermal_throttle.package.count": "cpu0=0 cpu2=6 cpu10=0",
		"hinv.cpu.thermal_throttle.package.time":  "cpu0=0 cpu2=7 cpu10=0",
	})

	// The same agent with the files of other machines.
	for _, tt := range []struct{ name, stat, info, model, stepping string }{{
		"arm: one block before the CPUs", "cpu 1 0 0 0\ncpu0 1 0 0 0\n",
		"Processor\t: ARMv7 rev 4\nFeatures\t: half thumb\nprocessor\t: 0\nBogoMIPS\t: 38.40\n",
		"cpu0=unknown", "cpu0=unknown",
	}, {
		"arm64: one block behind the CPUs", "cpu 2 0 0 0\ncpu0 1 0 0 0\ncpu1 1 0 0 0\n",
		"processor\t: 0\nprocessor\t: 1\nCPU implementer\t: 0x41\nCPU variant\t: 0x0\nCPU revision\t: 3\n",
		"cpu0=0x0 cpu1=0x0", "cpu0=3 cpu1=3",
	}, {
		"s390: numbers before the colon", "cpu 2 0 0 0\ncpu0 1 0 0 0\ncpu1 1 0 0 0\n",
		"vendor_id       : IBM/S390\nprocessor 0: version = FF,  identification = 1\nprocessor 1: version = FF,  identification = 2\n",
		"cpu0=unknown cpu1=unknown", "cpu0=unknown cpu1=unknown",
	}, {
		"ppc64le: lines for all CPUs behind the last block", "cpu 2 0 0 0\ncpu0 1 0 0 0\ncpu1 1 0 0 0\n",
		"processor\t: 0\nrevision\t: 2.2\n\nprocessor\t: 1\nrevision\t: 2.3\n\nplatform\t: pSeries\nmodel\t\t: IBM,9008-22L\n",
		"cpu0=IBM,9008-22L cpu1=IBM,9008-22L", "cpu0=2.2 cpu1=2.3",
	}, {
		"a kernel for one CPU", "cpu  7 0 0 0\nintr 1\n",
		"processor : 0\nmodel : one\nrevision : 2.0\n",
		"cpu0=one", "cpu0=2.0",
	}} {
		pmdatest.WriteFile(t, root, "proc/stat", tt.stat)
		pmdatest.WriteFile(t, root, "proc/cpuinfo", tt.info)
		if model, stepping := r.Values("hinv.cpu.model"), r.Values("hinv.cpu.stepping"); model != tt.model || stepping != tt.stepping {
			t.Errorf("%s: model %q, stepping %q, want %q, %q", tt.name, model, stepping, tt.model, tt.stepping)
		}
	}
	r.Want(map[string]string{"kernel.percpu.cpu.user": "cpu0=70", "hinv.ncpu": "1"})
}
