package proc

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// manyTree makes the tree of a host with n processes, which are all the same.
func manyTree(tb testing.TB, n int) string {
	root := pmdatest.Tree(tb, map[string]string{
		"one/stat": "1 (worker) S 1 100 100 34818 -1 4194304 97 2 3 4 200 100 6 7 20 -5 1 0 12345 4096000 250 " +
			"18446744073709551615 94909355249664 94909355269545 140732906566208 11 12 1 2 4096 2147483647 1 0 0 17 3 7 1 50 25 5 94909355285552 0 0 0 0 0 0 0\n",
		"one/cmdline": "/usr/bin/worker\x00--verbose\x00",
		"proc/":       "",
	})
	for i := range n {
		if err := os.Symlink("../one", fmt.Sprintf("%s/proc/%d", root, 1000+i)); err != nil {
			tb.Fatal(err)
		}
	}
	return root
}

var commonMetrics = []string{"proc.psinfo.utime", "proc.psinfo.stime", "proc.psinfo.vsize", "proc.psinfo.psargs", "proc.id.uid_nm", "proc.io.rchar", "proc.memory.vmsize"}

// A fetch does not allocate memory for each value.
func TestFetchAllocations(t *testing.T) {
	root := composedTree(t)
	for _, name := range []string{"7", "101", "1234567"} { // these lack files, and errors allocate
		if err := os.RemoveAll(root + "/proc/" + name); err != nil {
			t.Fatal(err)
		}
	}
	r := newHarness(t, Options{Root: root})
	var names []string
	for name := range r.Metrics {
		if strings.HasPrefix(name, "proc.") && name != "proc.namespaces.envid" {
			names = append(names, name)
		}
	}
	fetch := r.Repeat(names...)
	fetch()
	fetch()
	if n := testing.AllocsPerRun(10, func() { fetch() }); n > 10 {
		t.Errorf("a fetch of %d metrics allocates %v times", len(names), n)
	}
}

// A fetch has the values of all of 10,000 processes. BenchmarkFirstFetch has the time
// that it takes.
func TestManyProcesses(t *testing.T) {
	r := newHarness(t, Options{Root: manyTree(t, 10000)})
	if n := r.Repeat("proc.psinfo.utime", "proc.psinfo.psargs", "proc.runq.sleeping")(); n < 10000*8 {
		t.Errorf("%d bytes", n)
	}
	if n := len(r.Instances(indomProc)); n != 10000 {
		t.Errorf("%d instances", n)
	}
}

// A fetch reads the files of the requested processes and metrics only. For a few processes it does
// not read the directory.
func TestReadsOnlyRequestedFiles(t *testing.T) {
	root := manyTree(t, 100)
	pmdatest.WriteFile(t, root, "one/status", "Name:\tworker\nTgid:\t1007\n") // so the others are its threads
	pmdatest.WriteFile(t, root, "one/statm", "1 2 3\n")
	for _, tt := range []struct {
		name    string
		metrics []string
		insts   []int32
		want    []string
		values  int
	}{
		{"one", []string{"proc.psinfo.utime", "proc.memory.rss"}, []int32{1007},
			[]string{"/proc/1007/status", "/proc/1007/stat"}, 2},
		{"a thread", []string{"proc.psinfo.utime"}, []int32{1008}, []string{"/proc/1008/status", "/proc/1008/stat"}, 0},
		{"one and no process", []string{"proc.psinfo.utime"}, []int32{1007, 7, 1007, 0, -1}, nil, 1},
		{"the number", []string{"proc.nprocs"}, nil, []string{"/proc"}, 1},
		{"the number and one", []string{"proc.nprocs", "proc.psinfo.utime", "proc.runq.sleeping"}, []int32{1007}, nil, 3},
		{"some of many", []string{"proc.psinfo.utime"}, many(1000, 1050), nil, 50},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, Options{Root: root})
			req := &agents.FetchRequest{Profile: &pdu.Profile{}}
			for _, name := range tt.metrics {
				req.PMIDs = append(req.PMIDs, r.ID(name))
			}
			req.Profile.InDoms = []pdu.InDomProfile{{InDom: pdu.NewInDom(3, indomProc), Exclude: true, Insts: tt.insts}}
			var w pdu.ResultWriter
			w.Reset(nil, 0)
			files := r.opened(func() {
				if err := r.Agent.Fetch(t.Context(), req, &w); err != nil {
					t.Error(err)
				}
			})
			if n := min(len(files), len(tt.want)); !slices.Equal(files[:n], tt.want) || len(tt.want) > 0 && len(files) > n {
				t.Errorf("%q were read, want %q", files, tt.want)
			}
			b, err := w.Finish()
			var result pdu.Result
			if err == nil {
				_, err = pdu.ParseInto(b, &result)
			}
			values := 0
			for _, s := range result.Sets {
				values += len(s.Values)
			}
			if err != nil || values != tt.values {
				t.Errorf("%d values, want %d, %v", values, tt.values, err)
			}
		})
	}
}

// The size of the memory is in status, too.
func TestMemoryFromStatus(t *testing.T) {
	root := manyTree(t, 1)
	pmdatest.WriteFile(t, root, "one/status", "Name:\tworker\nVmSize:\t40 kB\nVmRSS:\t20 kB\n")
	pmdatest.WriteFile(t, root, "one/statm", "10 5 3\n")
	r := newHarness(t, Options{Root: root, PageSize: 4096})
	for metrics, want := range map[string][]string{
		"proc.memory.size proc.memory.rss":                    {"statm"},
		"proc.memory.rss proc.psinfo.rss":                     {"statm", "stat"},
		"proc.memory.rss proc.psinfo.utime proc.id.uid":       {"status", "stat"},
		"proc.psinfo.utime proc.memory.size proc.id.uid":      {"stat", "status"},
		"proc.memory.rss proc.memory.share proc.memory.vmrss": {"status", "statm"},
	} {
		fetch := r.Repeat(strings.Fields(metrics)...)
		var files []string
		for _, file := range r.opened(func() { fetch() }) {
			files = append(files, strings.TrimPrefix(file, "/proc/1000/"))
		}
		if !slices.Equal(files[1:], want) {
			t.Errorf("%s: %q were read, want %q", metrics, files[1:], want)
		}
	}
	r.Want(map[string]string{"proc.memory.size": "1000=40", "proc.memory.rss": "1000=20"})
}

func many(from, to int32) (ids []int32) {
	for ; from < to; from++ {
		ids = append(ids, from)
	}
	return ids
}

// The name of one instance costs the files of one process: clients such as pminfo ask for
// one after the other.
func TestNameOfOne(t *testing.T) {
	r := newHarness(t, Options{Root: manyTree(t, 100)})
	var in pdu.Instance
	files := r.opened(func() {
		if err := r.Do(&pdu.InstanceReq{InDom: pdu.NewInDom(3, indomProc), Inst: 1007}, &in); err != nil {
			t.Error(err)
		}
	})
	if len(in.Insts) != 1 || in.Insts[0].Name != "001007 /usr/bin/worker" {
		t.Errorf("got %+v", in.Insts)
	}
	if want := []string{"/proc", "/proc/1007/stat", "/proc/1007/cmdline"}; !slices.Equal(files, want) {
		t.Errorf("%q were read, want %q", files, want)
	}
}

func BenchmarkFetch(b *testing.B) {
	for _, root := range []string{"/", manyTree(b, 10000)} {
		name := "this host"
		if root != "/" {
			name = "10000 processes"
		}
		for _, metrics := range [][]string{{"proc.nprocs"}, {"proc.runq.runnable"}, commonMetrics} {
			b.Run(fmt.Sprintf("%s/%s", name, metrics[0]), func(b *testing.B) {
				fetch := newHarness(b, Options{Root: root}).Repeat(metrics...)
				b.ReportAllocs()
				for b.Loop() {
					fetch()
				}
			})
		}
	}
}

// The first fetch opens the files of all processes. It has to take less than the five
// seconds that pmcd waits for an agent.
func BenchmarkFirstFetch(b *testing.B) {
	root := manyTree(b, 10000)
	for b.Loop() {
		b.StopTimer()
		fetch := newHarness(b, Options{Root: root}).Repeat(commonMetrics...)
		b.StartTimer()
		fetch()
	}
}

func BenchmarkOpen(b *testing.B) {
	for b.Loop() {
		a, err := Open(3, Options{AccessConf: "none", HotConf: "none"})
		if err != nil {
			b.Fatal(err)
		}
		a.(io.Closer).Close()
	}
}
