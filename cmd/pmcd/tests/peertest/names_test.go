package peertest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// procNames has a dynamic root beside names that pmcd knows.
const procNames = `
root { pmcd proc }
pmcd { numclients 2:0:3 pmlogger version 2:0:7 timezone 2:0:20 hostname 2:0:21 zoneinfo 2:0:28
       client feature pid 2:0:23 seqnum 2:0:24 }
pmcd.client { whoami 2:6:0 }
pmcd.feature { local 2:0:27 }
pmcd.pmlogger { host 2:3:3 port 2:3:0 archive 2:3:2 }
proc { nprocs 3:8:99 schedstat 3:*:* }
`

// A pmlogger that starts while the agent of a dynamic subtree is down logs the
// metrics of the agent once it is there.
func TestPmloggerBeforeAgent(t *testing.T) {
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	for _, log := range []struct{ what, name string }{
		{"from above the root", "proc"},
		{"from the root", "proc.schedstat"},
		{"from below the root", "proc.schedstat.cpu_time"},
	} {
		t.Run(log.what, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "agent")
			d := peer.StartT(t, path, peer.Config{
				Agents: []string{
					"pmcd 2 dso pmcd_init " + peer.PMDAs + "pmcd/pmda_pmcd.so",
					"proc 3 pipe binary " + program + " -d 3",
				},
				PMNS: procNames,
				Env:  []string{"PMCD_RESTART_AGENTS=0"},
				Files: map[string]string{
					"logger.conf": "log mandatory on 50 msec { pmcd.numclients }\nlog mandatory on 50 msec { " + log.name + " }\n",
				},
			})
			names := func() string {
				return output(t, d, "pminfo -a "+filepath.Join(d.Dir, "archive"))
			}
			// The first record is there when the configuration was read.
			d.Background(t, client("pmlogger", "-u", "-h", "{host}", "-c", filepath.Join(d.Dir, "logger.conf"),
				"-l", filepath.Join(d.Dir, "logger.log"), filepath.Join(d.Dir, "archive")), func() error {
				if strings.Contains(names(), "pmcd.numclients") {
					return nil
				}
				return errors.New("it has no archive yet")
			})
			if got := names(); strings.Contains(got, "proc") {
				t.Fatalf("before the agent: %s", got)
			}
			if err := os.Symlink(peer.PMDAs+"proc/pmdaproc", program); err != nil {
				t.Fatal(err)
			}
			d.Signal(syscall.SIGHUP)
			const want = "proc.schedstat.cpu_time"
			if !peer.Until(peer.Hangs, func() bool { return strings.Contains(names(), want) }) {
				text, _ := os.ReadFile(filepath.Join(d.Dir, "logger.log"))
				t.Errorf("no %s in the archive:\n%s\n%s", want, names(), text)
			}
			if log.name == "proc" && !peer.Until(peer.Hangs, func() bool { return strings.Contains(names(), "proc.nprocs") }) {
				t.Errorf("no proc.nprocs in the archive:\n%s", names())
			}
		})
	}
}

// newerNames is part of the name spaces of PCP 6.3.8 and 7.2.1, which have dynamic roots that
// an older agent does not know. None of these agents knows the roots named later.
const newerNames = `
root { pmcd proc hotproc sample }
pmcd { numclients 2:0:3 version 2:0:7 }
proc { nprocs 3:8:99 psinfo 3:*:* memory 3:*:* id 3:*:* io 3:*:* delayacct 3:*:* schedstat 3:*:* fd 3:*:*
       fdinfo 3:*:* namespaces 3:*:* smaps 3:*:* autogroup 3:*:* later 3:*:* }
hotproc { nprocs 3:52:99 psinfo 3:*:* delayacct 3:*:* fdinfo 3:*:* later 3:*:* }
sample { long secret 29:*:* }
sample.long { one 29:0:10 }
`

// Dynamic roots that the agent does not know hide no other names.
func TestNewerNameSpace(t *testing.T) {
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	for _, agent := range []struct {
		what, line string
		unknown    []string
	}{
		{"built-in agent", "proc 3 dso proc_init /nonexistent/pmda_proc.so", []string{"proc.later"}},
		{"PCP's agent", "proc 3 pipe binary " + peer.PMDAs + "proc/pmdaproc -d 3", []string{"proc.later", "proc.fdinfo", "proc.delayacct"}},
	} {
		t.Run(agent.what, func(t *testing.T) {
			d := peer.StartT(t, path, peer.Config{
				Agents: []string{
					"pmcd 2 dso pmcd_init " + peer.PMDAs + "pmcd/pmda_pmcd.so",
					agent.line,
					"sample 29 pipe binary " + peer.PMDAs + "sample/pmdasample -d 29",
				},
				PMNS: newerNames,
			})
			got := output(t, d, "pminfo -h {host}")
			for _, want := range []string{"pmcd.numclients", "proc.nprocs", "proc.psinfo.pid", "proc.autogroup.enabled",
				"hotproc.nprocs", "hotproc.psinfo.pid", "sample.long.one", "sample.secret.bar"} {
				if !strings.Contains(got, want+"\n") {
					t.Errorf("no %s among the names", want)
				}
			}
			for _, not := range append(agent.unknown, "proc.psinfo\n") {
				if strings.Contains(got, not) {
					t.Errorf("%s is among the names", not)
				}
			}
			if t.Failed() {
				t.Log(got)
			}
			for _, name := range agent.unknown {
				if got := output(t, d, "pminfo -h {host} "+name); !strings.Contains(got, "Unknown metric name") {
					t.Errorf("pminfo %s: %s", name, got)
				}
			}
			if log := d.Log(); strings.Contains(log, "are missing") {
				t.Errorf("the log says that names are missing:\n%s", log)
			}
		})
	}
}

// A client that asks for what is below a dynamic root without agent is told why there
// is nothing. The root itself is listed as a metric, as by C pmcd.
func TestMissingRoot(t *testing.T) {
	d := servers(t).Ours // has no agent for pmproxy
	for _, tt := range []struct{ line, want string }{
		{"pminfo -h {host} -m pmproxy", "pmproxy: pmLookupName: No PMCD agent for domain of request"},
		{"pminfo -h {host} -m pmproxy.pid", "pmproxy.pid: No PMCD agent for domain of request"},
		{"pmprobe -h {host} -v pmproxy.pid", "pmproxy.pid -12386 No PMCD agent for domain of request"},
		{"pminfo -h {host}", "\npmproxy\n"},
	} {
		if got := output(t, d, tt.line); !strings.Contains(got, tt.want) {
			t.Errorf("%s: no %q in\n%s", tt.line, tt.want, got)
		}
	}
}
