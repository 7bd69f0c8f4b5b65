package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

func TestPredicate(t *testing.T) {
	v := &vars{texts: [...]string{"alice", "users", "top", "/usr/bin/top -b"}}
	v.nums[varUID], v.nums[varCPU], v.nums[varVirtual] = 1000, 0.25, 4096
	for _, tt := range []struct {
		text, shown string
		want        bool
	}{
		{"cpuburn > 0.2", "(cpuburn > 0.200000)", true},
		{"#pmdahotproc\nVersion 1.0\n\nuname != \"root\" || cpuburn > 0.05", `((uname != "root") || (cpuburn > 0.050000))`, true},
		{"! uid == 1000 && true", "((! (uid == 1000)) && (true))", false},
		{"uid==0||virtualsize>=4096&&fname==\"top\"", `((uid == 0) || ((virtualsize >= 4096) && (fname == "top")))`, true},
		{"(uid==1000||true)&&false", "(((uid == 1000) || (true)) && (false))", false},
		{"psargs ~ /bin.top/ && psargs !~ /x/", `((psargs ~ "bin.top") && (psargs !~ "x"))`, true},
		{"1. < 2 && .5 < 1", "((1 < 2) && (0.500000 < 1))", true},
		{`gname == "users"`, `(gname == "users")`, true},
	} {
		p, err := parsePredicate(tt.text)
		if err != nil || p.text != tt.shown || p.eval(v) != tt.want {
			t.Errorf("%s: %+v, %v, want %s", tt.text, p, err, tt.shown)
		}
	}
	for _, text := range []string{"", "  # nothing\n"} {
		if p, err := parsePredicate(text); p != nil || err != nil {
			t.Errorf("%q: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{
		"cpuburn", "cpuburn >", "cpuburn > \"x\"", "uname > \"x\"", "uname == 1", "uname ~ \"x\"", "uname ~ /(/", "syscalls > 1", "(true", "true)",
		"true true", "true &&", "Version 2.0 true", "Version 1.0", "cpuburn = 1", "\"x", "/x", "inf > 1", "@", strings.Repeat("(", 200), strings.Repeat("!", 200) + "true",
	} {
		t.Run(text, func(t *testing.T) {
			if p, err := parsePredicate(text); err == nil {
				t.Errorf("%q is accepted: %v", text, p)
			}
		})
	}
}

func FuzzPredicate(f *testing.F) {
	f.Add(`Version 1.0 (uname == "root" || ! cpuburn > 0.05) && psargs ~ /x/`)
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := parsePredicate(text); err == nil && p != nil {
			p.eval(new(vars))
		}
	})
}

func hotTree(tb testing.TB) string {
	return pmdatest.Tree(tb, map[string]string{
		"proc/stat":     "cpu  10 0 10 100 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\nintr 1\n",
		"proc/5/stat":   "5 (busy) S 1 5 5 0 -1 0 0 0 0 0 100 100 0 0 20 0 1 0 7 4096 2 0\n",
		"proc/5/status": "Name:\tbusy\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nvoluntary_ctxt_switches:\t5\n",
		"proc/5/io":     "read_bytes: 1024\n", "proc/5/cmdline": "busy\x00-v\x00",
		"proc/6/stat":   "6 (idle) S 1 5 5 0 -1 0 0 0 0 0 100 100 0 0 20 0 1 0 7 4096 2 0\n",
		"proc/6/status": "Name:\tidle\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\n",
		"proc/7/stat":   "7 (half) S 1\n",
	})
}

func TestSampler(t *testing.T) {
	root := hotTree(t)
	s := newSampler(newHost(3, Options{Root: root, PageSize: 4096, AccessConf: "none"}))
	p, err := parsePredicate("cpuburn > 0.4")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	if v := s.scan(p, now); len(v.pids) != 0 || v.totals != nil {
		t.Errorf("the first scan has %+v", v)
	}
	pmdatest.WriteFile(t, root, "proc/5/stat", "5 (busy) S 1 5 5 0 -1 0 0 0 0 0 150 150 0 0 20 0 1 0 7 8192 2 0\n")
	pmdatest.WriteFile(t, root, "proc/5/io", "read_bytes: 5120\n")
	pmdatest.WriteFile(t, root, "proc/5/status", "Uid:\t0\nGid:\t0\nvoluntary_ctxt_switches:\t7\nnonvoluntary_ctxt_switches:\t2\n")
	pmdatest.WriteFile(t, root, "proc/6/stat", "6 (idle) S 1 5 5 0 -1 0 0 0 0 0 120 100 0 0 20 0 1 0 7 4096 2 0\n")
	pmdatest.WriteFile(t, root, "proc/stat", "cpu  10 0 10 200 0\ncpu0 1 1 1 1\ncpu1 1 1 1 1\n")
	v := s.scan(p, now.Add(2*time.Second))
	if fmt.Sprint(v.pids) != "[5]" || v.varsOf(6) != nil {
		t.Fatalf("hot are %v", v.pids)
	}
	// The predicate does not need ctxswitch and iodemand: there are no earlier counters.
	want := vars{nums: [...]float64{varCPU: 0.5, varVirtual: 8, varResident: 8, varSchedWait: 0}, unknown: 1<<varSwitches | 1<<varIO | 1<<varSchedWait}
	if got := *v.varsOf(5); got != want {
		t.Errorf("process 5 has %+v, want %+v", got, want)
	}
	if want := (totals{idle: 0.5, hot: 0.5, cold: 0.1, transient: 0.9}); fmt.Sprintf("%.3f", *v.totals) != fmt.Sprintf("%.3f", want) {
		t.Errorf("totals %+v, want %+v", v.totals, want)
	}
	// They are there in the next scan.
	pmdatest.WriteFile(t, root, "proc/5/stat", "5 (busy) S 1 5 5 0 -1 0 0 0 0 0 200 200 0 0 20 0 1 0 7 8192 2 0\n")
	pmdatest.WriteFile(t, root, "proc/5/io", "read_bytes: 9216\n")
	pmdatest.WriteFile(t, root, "proc/5/status", "Uid:\t0\nGid:\t0\nvoluntary_ctxt_switches:\t9\nnonvoluntary_ctxt_switches:\t4\n")
	want.nums[varSwitches], want.nums[varIO], want.unknown = 2, 2, 1<<varSchedWait // there is no schedstat
	if v := s.scan(p, now.Add(4*time.Second)); v.varsOf(5) == nil || *v.varsOf(5) != want {
		t.Errorf("process 5 then has %+v, want %+v", v.varsOf(5), want)
	}
	// The counters of another process with the same process id start at 0.
	pmdatest.WriteFile(t, root, "proc/5/stat", "5 (other) S 1 5 5 0 -1 0 0 0 0 0 950 150 0 0 20 0 1 0 9 8192 2 0\n")
	if v := s.scan(p, now.Add(6*time.Second)); len(v.pids) != 0 {
		t.Errorf("hot are %v", v.pids)
	}
}

func TestHotproc(t *testing.T) {
	root := hotTree(t)
	conf := filepath.Join(root, "hotproc.conf")
	r := newHarness(t, Options{Root: root, HotConf: conf, AllAccess: true})
	r.Want(map[string]string{
		"hotproc.nprocs": "0", "hotproc.psinfo.pid": "", "hotproc.control.config": "", "hotproc.control.config_gen": "0",
		"hotproc.control.refresh": "10", "hotproc.total.cpuother.percent": "0",
	})
	stores := func(name string, v pdu.Value, want error) {
		t.Helper()
		text := ""
		if want != nil {
			text = want.Error()
		}
		if got := r.Store(name, v); got != text {
			t.Errorf("store of %s: %q, want %q", name, got, text)
		}
	}
	hot := func(want string) {
		t.Helper()
		end := time.Now().Add(testutil.Hangs)
		for r.Values("hotproc.psinfo.psargs") != want {
			if time.Now().After(end) {
				t.Fatalf("hot are %q, want %q", r.Values("hotproc.psinfo.psargs"), want)
			}
		}
	}
	r.setUser(1000, 1000)
	stores("hotproc.control.config", textValue("true"), pdu.ErrnoPermission)
	stores("hotproc.control.refresh", word(1), pdu.ErrnoPermission)
	r.setUser(0, 0)
	stores("hotproc.control.config", textValue("cpuburn >"), pdu.ErrnoBadStore)
	stores("hotproc.control.config", textValue("psargs ~ /-v/"), nil)
	hot("5=busy -v")
	r.Want(map[string]string{
		"hotproc.nprocs": "1", "hotproc.control.config": `(psargs ~ "-v")`, "hotproc.control.config_gen": "1",
		"hotproc.predicate.virtualsize": "5=4", "hotproc.id.uid": "5=0",
	})
	if got := fmt.Sprint(r.Instances(indomHot)); got != "[{5 000005 busy}]" {
		t.Errorf("instances %s", got)
	}
	stores("hotproc.control.refresh", word(0), pdu.ErrnoBadStore)
	stores("hotproc.control.refresh", word(3), nil)
	r.Want(map[string]string{"hotproc.control.refresh": "3"})
	hot("5=busy -v")
	if err := os.WriteFile(conf, []byte("#pmdahotproc\nVersion 1.0\nfname == \"idle\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	stores("hotproc.control.reload_config", word(1), nil)
	hot("6=(idle)")
	if err := os.Chmod(conf, 0o646); err != nil {
		t.Fatal(err)
	}
	stores("hotproc.control.config", textValue(""), nil)
	stores("hotproc.control.reload_config", word(1), nil)
	r.Want(map[string]string{"hotproc.nprocs": "0", "hotproc.control.config_gen": "0", "hotproc.psinfo.pid": ""})
	if err := os.RemoveAll(root + "/proc/5"); err != nil {
		t.Fatal(err)
	}
}

// Clients whose user pmcd does not know get an error for metrics of hot processes.
func TestHotprocUnknownClient(t *testing.T) {
	root := hotTree(t)
	pmdatest.WriteFile(t, root, "hotproc.conf", "true")
	if err := os.Chmod(root+"/hotproc.conf", 0o600); err != nil {
		t.Fatal(err)
	}
	r := newHarness(t, Options{Root: root, HotConf: root + "/hotproc.conf"})
	r.setAttrs(nil)
	end := time.Now().Add(testutil.Hangs)
	for r.Values("hotproc.nprocs") != "2" && time.Now().Before(end) {
	}
	r.Want(map[string]string{"hotproc.nprocs": "2", "hotproc.psinfo.pid": pdu.ErrnoPermission.Error()})
}

// A process whose number belongs to another one by now is not hot. After exec it is the
// same process, with the name of the new program.
func TestHotprocNumberUsedAgain(t *testing.T) {
	root := hotTree(t)
	r := newHarness(t, Options{Root: root})
	const stat = "(x) S 1 5 5 0 -1 0 0 0 0 0 100 100 0 0 20 0 1 0 %d 4096 2 0 1 1 %d\n"
	set := func(pid, start, stack int, cmdline string) {
		pmdatest.WriteFile(t, root, fmt.Sprintf("proc/%d/stat", pid), fmt.Sprintf("%d "+stat, pid, start, stack))
		pmdatest.WriteFile(t, root, fmt.Sprintf("proc/%d/cmdline", pid), cmdline)
	}
	check := func(want, instances string) {
		t.Helper()
		r.Want(map[string]string{"hotproc.psinfo.psargs": want, "hotproc.nprocs": fmt.Sprint(len(strings.Fields(want)))})
		if got := fmt.Sprint(r.Instances(indomHot)); got != instances {
			t.Errorf("instances %s, want %s", got, instances)
		}
	}
	set(5, 7, 100, "busy")
	set(6, 7, 100, "sh")
	r.host.hot.hot.Store(&hotSet{pids: []int32{5, 6, 8}, samples: map[int32]sample{5: {start: 7}, 6: {start: 7}, 8: {start: 7}}, vars: make([]vars, 3)})
	check("5=busy 6=sh", "[{5 000005 busy} {6 000006 sh}]")
	set(6, 7, 101, "cat")
	check("5=busy 6=cat", "[{5 000005 busy} {6 000006 cat}]")
	set(5, 8, 100, "other")
	check("6=cat", "[{6 000006 cat}]")
}

// A rate has no value in the first scan, in which a process has no earlier counters.
func TestUnknownRates(t *testing.T) {
	r := newHarness(t, Options{Root: hotTree(t)})
	p, err := parsePredicate("cpuburn == 0")
	if err != nil {
		t.Fatal(err)
	}
	s, now := newSampler(r.host), time.Now()
	for scan, rates := range []string{"", "5=0 6=0"} {
		idle := []string{"", "0"}[scan]
		r.host.hot.hot.Store(s.scan(p, now.Add(time.Duration(scan)*time.Second)))
		r.Want(map[string]string{
			"hotproc.predicate.cpuburn": rates, "hotproc.predicate.iowait": rates, "hotproc.predicate.ctxswitch": rates,
			"hotproc.predicate.virtualsize": "5=4 6=4", "hotproc.predicate.schedwait": "",
			"hotproc.total.cpuidle": idle,
		})
	}
}

// A scan reads the files that the predicate needs, and all for hot processes.
func TestPredicateReadsItsFiles(t *testing.T) {
	root := manyTree(t, 1)
	for _, file := range []string{"io", "schedstat"} {
		pmdatest.WriteFile(t, root, "one/"+file, "1 2 3\n")
	}
	pmdatest.WriteFile(t, root, "one/status", "Name:\tworker\nUid:\t7\t7\t7\t7\n")
	for text, want := range map[string]string{
		"cpuburn > 5":                         "stat",
		`fname == "x" || residentsize > 9999`: "stat",
		"uid == 1 || ctxswitch > 5":           "stat status",
		"iodemand > 5 && cpuburn > 5":         "stat io",
		"schedwait > 5":                       "stat schedstat",
		"psargs ~ /x/":                        "stat cmdline",
		"cpuburn == 0":                        "stat status io schedstat",
	} {
		t.Run(text, func(t *testing.T) {
			p, err := parsePredicate(text)
			if err != nil {
				t.Fatal(err)
			}
			s := newSampler(newHost(3, Options{Root: root}))
			var got []string
			for _, file := range s.tree.opened(func() { s.scan(p, time.Now()) }) {
				if name, ok := strings.CutPrefix(file, "/proc/1000/"); ok {
					got = append(got, name)
				}
			}
			if got, want := slices.Sorted(slices.Values(got)), slices.Sorted(strings.FieldsSeq(want)); !slices.Equal(got, want) {
				t.Errorf("%q were read, want %q", got, want)
			}
		})
	}
}
