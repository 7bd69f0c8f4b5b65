package qemutest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// attempts is how often two pmcds are asked until they say the same: values change, and
// instances come and go, between two requests.
const attempts = 20

// ofTheProcess are metrics that differ between two pmcds on one host.
var ofTheProcess = []string{
	"pmcd.pdu_in", "pmcd.pdu_out", "pmcd.cputime", "pmcd.buf", "pmcd.datasize", "pmcd.pid", "pmcd.seqnum", "pmcd.openfds", "pmcd.client",
	"pmcd.simabi", "hinv.machine", "kernel.uname.machine", "pmda.uname", // the processor
	"proc", "hotproc", // processes come and go: see TestProcesses
}

// embedded starts a pmcd with the embedded defaults for p, and one for the processor of
// this machine.
func embedded(t *testing.T, p processor) (foreign, native *peer.Daemon) {
	t.Helper()
	cfg := peer.Config{Embedded: true}
	return peer.StartT(t, p.pmcd(t), cfg), peer.StartT(t, nativePmcd(t), cfg)
}

// PCP's pminfo is told the same about each metric, by a pmcd for any processor.
func TestDescriptions(t *testing.T) {
	eachProcessor(t, func(t *testing.T, p processor) {
		foreign, native := embedded(t, p)
		for _, option := range []string{"-dm", "-tT", "-l"} {
			var got, want, diff string
			for range attempts {
				got, want = output(t, foreign, "pminfo", "-h", "{host}", option), output(t, native, "pminfo", "-h", "{host}", option)
				if diff = firstDifference(got, want); diff == "" {
					break
				}
			}
			if diff != "" {
				t.Errorf("pminfo %s: %s", option, diff)
			}
			if n := strings.Count(want, "\n"); n < 2000 {
				t.Errorf("pminfo %s prints only %d lines", option, n)
			}
		}
	})
}

// PCP's pmcd and agents, and ours for another processor, have the same values.
func TestValuesAsOfC(t *testing.T) {
	eachProcessor(t, func(t *testing.T, p processor) {
		pair := peer.Pair{C: peer.StartT(t, peer.CPmcd, peer.Config{}), Ours: peer.StartT(t, p.pmcd(t), peer.Config{Embedded: true})}
		pair.Compare(t, peer.TCP4, peer.Client{Args: strings.Fields("pminfo -h {host} -f hinv.ncpu hinv.physmem hinv.pagesize hinv.ndisk" +
			" hinv.ninterface hinv.nfilesys hinv.map.cpu_num hinv.cpu.clock hinv.cpu.vendor hinv.cpu.model_name hinv.cpu.cache hinv.cpu.bogomips kernel.all.load kernel.uname.release kernel.all.cpu.user kernel.percpu.cpu.user" +
			" mem.physmem mem.util.used disk.dev.total network.interface.in.bytes swap.length filesys.capacity" +
			" pmcd.control.timeout pmcd.numclients pmcd.hostname pmcd.timezone pmcd.control.register"),
		}, peer.Comparison{Split: peer.Metrics, Must: `"15 minute"`})
		if got, want := output(t, pair.Ours, "pminfo", "-h", "{host}", "-f", "hinv.machine"), fmt.Sprintf("\nhinv.machine\n    value %q\n", p.machine); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// A pmcd for another processor has the values of one for this machine's, of all agents.
// Values that change are fetched again and again.
func TestValues(t *testing.T) {
	eachProcessor(t, func(t *testing.T, p processor) {
		foreign, native := embedded(t, p)
		args := []string{nativePmcdctl(t), "compare", "--json", "-h", "{host}", "-h", foreign.Host(peer.TCP4)}
		all := args
		for _, name := range ofTheProcess {
			all = append(all, "-x", name)
		}
		report := compare(t, native, all)
		if report.Metrics < 2000 || report.Values < 1000 {
			t.Errorf("only %d metrics and %d values are compared", report.Metrics, report.Values)
		}
		for range attempts {
			if len(report.Differences) == 0 {
				return
			}
			again := args
			for _, d := range report.Differences {
				again = append(again, d.Name)
			}
			report = compare(t, native, again)
		}
		for _, d := range report.Differences {
			t.Errorf("%+v", d)
		}
	})
}

// A report is what "pmcdctl compare --json" prints.
type report struct {
	Metrics, Values int
	Differences     []struct{ Name, Instance, What, A, B string }
}

// compare runs "pmcdctl compare", whose exit status says whether there are differences.
func compare(t *testing.T, d *peer.Daemon, args []string) (r report) {
	t.Helper()
	o, err := d.Run(t.Context(), peer.TCP4, peer.Client{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(o.Stdout), &r); err != nil || o.Code > 1 {
		t.Fatalf("%v\n%s\n%s", err, o.Cmd, o)
	}
	return r
}

// Instances of processes have the number of the process.
func TestProcesses(t *testing.T) {
	instance := regexp.MustCompile(`inst \[(\d+) or "0*(\d+)\b.*\] value (\d+)\n`)
	eachProcessor(t, func(t *testing.T, p processor) {
		foreign := peer.StartT(t, p.pmcd(t), peer.Config{Embedded: true, Env: []string{"PROC_ACCESS=1"}})
		found := false
		for _, m := range instance.FindAllStringSubmatch(output(t, foreign, "pminfo", "-h", "{host}", "-f", "proc.psinfo.pid"), -1) {
			if m[1] != m[2] || m[2] != m[3] {
				t.Errorf("%q", m[0])
			}
			found = found || m[1] == strconv.Itoa(foreign.PID())
		}
		if !found {
			t.Errorf("process %d is not there", foreign.PID())
		}
	})
}

// PCP's pmstore sets a value over the Unix socket. Over TCP the embedded defaults refuse it.
func TestStore(t *testing.T) {
	eachProcessor(t, func(t *testing.T, p processor) {
		foreign := peer.StartT(t, p.pmcd(t), peer.Config{Embedded: true})
		store := func(tr peer.Transport) peer.Output {
			o, err := foreign.Run(t.Context(), tr, peer.Client{Args: []string{"pmstore", "-h", "{host}", "pmcd.control.timeout", "6"}})
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		if o := store(peer.TCP4); !strings.Contains(o.String(), "No permission") {
			t.Errorf("over TCP: %s", o)
		}
		if o := store(peer.Unix); o.Stdout != "pmcd.control.timeout old value=60 new value=6\n" {
			t.Errorf("over the Unix socket: %s", o)
		}
		if out := output(t, foreign, "pminfo", "-h", "{host}", "-f", "pmcd.control.timeout"); !strings.Contains(out, "value 6\n") {
			t.Error(out)
		}
	})
}

// PCP's pmlogger gets each result with the time of the fetch.
func TestArchive(t *testing.T) {
	const fetches = 3
	record := regexp.MustCompile(`(?m)^(\d\d:\d\d:\d\d\.\d+) +1 metric$`)
	eachProcessor(t, func(t *testing.T, p processor) {
		foreign := peer.StartT(t, p.pmcd(t), peer.Config{Embedded: true})
		last := time.Now().UTC().Truncate(time.Microsecond) // as in archives
		day := last.Truncate(24 * time.Hour)
		output(t, foreign, "/bin/sh", "-c", fmt.Sprintf("echo 'log mandatory on 100 msec { hinv.ncpu }' >conf.log &&"+
			" pmlogger -h {host} -c conf.log -l pmlogger.log -s %d a && echo done", fetches))
		end := time.Now()
		out := output(t, foreign, "pmdumplog", "-Z", "UTC", "a", "hinv.ncpu")
		records := record.FindAllStringSubmatch(out, -1)
		if len(records) != fetches {
			t.Errorf("%d results, not %d", len(records), fetches)
		}
		for _, r := range records {
			clock, err := time.Parse(time.TimeOnly, r[1])
			if err != nil {
				t.Fatal(err)
			}
			at := day.Add(clock.Sub(clock.Truncate(24 * time.Hour)))
			if at.Before(last.Add(-time.Hour)) { // after midnight
				at = at.Add(24 * time.Hour)
			}
			if at.Before(last) || at.After(end) {
				t.Errorf("the time %v is not between %v and %v", at, last, end)
			}
			last = at
		}
		if t.Failed() {
			t.Log(out)
		}
	})
}
