package proc

import (
	"maps"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// fuzzedFiles are the files that FuzzFiles writes, and the prefixes of the metrics
// that are read from each.
var fuzzedFiles = []struct{ file, metrics string }{
	{"proc/100/stat", "proc.psinfo. proc.runq."},
	{"proc/100/status", "proc.id. proc.memory.vm proc.namespaces. proc.psinfo."},
	{"proc/100/statm", "proc.memory."},
	{"proc/100/io", "proc.io."},
	{"proc/100/smaps_rollup", "proc.smaps."},
	{"proc/100/numa_maps", "proc.numa_maps."},
	{"proc/100/fdinfo/3", "proc.fdinfo."},
	{"proc/100/cgroup", "proc.psinfo.cgroups proc.id.container"},
	{"proc/100/environ", "proc.psinfo.environ"},
	{"proc/100/autogroup", "proc.autogroup."},
	{"proc/100/attr/current", "proc.psinfo.labels"},
	{"proc/100/cmdline", "proc.psinfo.psargs"},
	{"proc/tty/drivers", "proc.psinfo.ttyname"},
	{"proc/sys/kernel/sched_autogroup_enabled", "proc.autogroup."},
}

// FuzzFiles has any contents in the files of the kernel and of processes. Values do
// not depend on what the agent has read before, except for those that it keeps.
func FuzzFiles(f *testing.F) {
	root := composedTree(f)
	withoutThread(f, root)
	for _, name := range []string{"sys/module/amdgpu/", "proc/100/numa_maps", "proc/100/fd/3", "proc/100/fd/4", "proc/100/fdinfo/3", "proc/100/fdinfo/4"} {
		pmdatest.WriteFile(f, root, name, since72()[name])
	}
	r := newHarness(f, Options{Root: root})
	seeds := map[string]string{}
	for i, z := range fuzzedFiles {
		text, err := r.host.Path("/" + z.file).Text(maxFile)
		if err != nil {
			f.Fatal(err)
		}
		seeds[z.file] = string(text)
		f.Add(byte(i), "", string(text))
		f.Add(byte(i), string(text), string(text[:len(text)/2]))
	}
	f.Fuzz(func(t *testing.T, which byte, before, text string) {
		z := fuzzedFiles[int(which)%len(fuzzedFiles)]
		values := func(texts ...string) map[string]string {
			r := newHarness(t, Options{Root: root})
			var m map[string]string
			for _, text := range texts {
				pmdatest.WriteFile(t, root, z.file, text)
				m = make(map[string]string)
				for name := range r.Metrics {
					for _, prefix := range strings.Fields(z.metrics) {
						if strings.HasPrefix(name, prefix) {
							m[name] = r.Values(name)
						}
					}
				}
			}
			pmdatest.WriteFile(t, root, z.file, seeds[z.file])
			return m
		}
		got, want := values(before, text), values(text)
		for _, m := range []map[string]string{got, want} { // values that the agent keeps
			delete(m, "proc.psinfo.psargs")
			delete(m, "proc.psinfo.ttyname")
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: after %q, %q\n gives %v\nwithout it %v", z.file, before, text, got, want)
		}
	})
}

// psargs has no control characters.
func FuzzArgs(f *testing.F) {
	f.Add("/bin/sh\x00-c\x00\x1b[31mx\x1b]0;y\x07\x1b]z\x1b\\\x1bc\x7f")
	f.Fuzz(func(t *testing.T, text string) {
		for _, c := range cleanArgs([]byte(text)) {
			if c < ' ' || c == 0x7f {
				t.Fatalf("%q has %q", text, c)
			}
		}
	})
}

// The files of control groups may have any contents.
func FuzzCgroups(f *testing.F) {
	names := []string{"proc/mounts", "proc/cgroups", "proc/diskstats", "cg/io.stat", "cg/a.slice/cpu.pressure", "cg/a.slice/memory.stat"}
	for i, name := range names {
		f.Add(byte(i), cgroups2[name])
		f.Add(byte(i), cgroups1[name])
	}
	root := pmdatest.Tree(f, cgroups2)
	f.Fuzz(func(t *testing.T, which byte, text string) {
		name := names[int(which)%len(names)]
		pmdatest.WriteFile(t, root, name, text)
		r := newHarness(t, Options{Root: root})
		for metric := range r.Metrics {
			if strings.HasPrefix(metric, "cgroup.") {
				r.Values(metric)
			}
		}
		pmdatest.WriteFile(t, root, name, cgroups2[name])
	})
}
