package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/pmcdctl/internal/compare"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// startProcess starts a pmcd for a host with one process, 4321. The function that it returns makes
// that number the one of another program.
func startProcess(t *testing.T) (d *peer.Daemon, set func(comm, cmdline string, start int)) {
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	dir := filepath.Join(root, "proc", "4321")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "proc", "stat"), "cpu 0 0 0 0\nbtime 1700000000\n")
	set = func(comm, cmdline string, start int) {
		t.Helper()
		for name, text := range map[string]string{
			"stat": fmt.Sprintf("4321 (%s) S 1 4321 4321 0 -1 4194560 10 0 0 0 5 6 0 0 20 0 1 0 %d 1000000 100 18446744073709551615 "+
				"1 1 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n", comm, start),
			"cmdline": strings.ReplaceAll(cmdline, " ", "\x00") + "\x00",
			"status":  "Name:\t" + comm + "\nState:\tS (sleeping)\nTgid:\t4321\nPid:\t4321\nPPid:\t1\nUid:\t0\t0\t0\t0\nGid:\t0\t0\t0\t0\nThreads:\t1\n",
		} {
			next := filepath.Join(root, name)
			write(t, next, text)
			if err := os.Rename(next, filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	set("alpha", "alpha -x", 1000)
	d, err = peer.Start(path, peer.Config{
		Bare: true, Env: []string{"PMCD_HOST_ROOT=" + root}, Agents: []string{"proc 3 dso proc_init /none"},
		PMNS: "root { proc }\nproc { psinfo }\nproc.psinfo { cmd 3:8:1 start_time 3:8:21 }\n",
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	})
	return d, set
}

// Watch shows the program that has the number of a process now, and not the first one.
func TestWatchExec(t *testing.T) {
	noConf(t)
	pmcdctl, err := peer.Ctl()
	if err != nil {
		t.Fatal(err)
	}
	d, set := startProcess(t)
	watches := map[string]*buffer{"proc.psinfo.cmd": {}, "proc.psinfo.cmd[004321 alpha]": {}}
	for arg, stdout := range watches {
		cmd := exec.Command(pmcdctl, "watch", "--json", "-t", "20ms", "-h", d.Host(peer.Unix), arg)
		cmd.Stdout, cmd.Stderr = stdout, stdout
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			cmd.Process.Signal(syscall.SIGINT)
			if err := cmd.Wait(); err != nil {
				t.Logf("%s: %v", arg, err) // the last sample has no value
			}
		}()
	}
	for _, want := range []map[string]string{
		{"proc.psinfo.cmd": "proc.psinfo.cmd[004321 alpha]", "proc.psinfo.cmd[004321 alpha]": "proc.psinfo.cmd[004321 alpha]"},
		{"proc.psinfo.cmd": "proc.psinfo.cmd[004321 /usr/bin/beta]", "proc.psinfo.cmd[004321 alpha]": "no such instance"},
	} {
		for arg, label := range want {
			got := ""
			if !peer.Until(testutil.Hangs, func() bool {
				got = strings.Join(lastSample(watches[arg].String()), ", ")
				return strings.HasSuffix(got, label)
			}) {
				t.Fatalf("watch %s: %s, want %s", arg, got, label)
			}
		}
		set("beta", "/usr/bin/beta --other", 990000)
	}
}

// A conn calls fetch before each fetch.
type conn struct {
	net.Conn
	fetch func()
}

func (c conn) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; { // a profile may be before it
		length, typ, _ := pdu.Header(rest)
		if typ == pdu.TypeHighResFetch {
			c.fetch()
		}
		rest = rest[length:]
	}
	return c.Conn.Write(b)
}

// The values of a snapshot are those of the programs that had them.
func TestSnapshotExec(t *testing.T) {
	noConf(t)
	d, set := startProcess(t)
	samples := 0
	c, err := pmapi.Dial(t.Context(), d.Host(peer.Unix), pmapi.Options{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, network, address)
		return conn{nc, func() {
			if samples++; samples == 2 {
				set("beta", "/usr/bin/beta --other", 990000)
			}
		}}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all, err := compare.Take(t.Context(), compare.Options{Prefixes: []string{"proc.psinfo.cmd"}, Samples: 2}, c)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range all[0].Metrics[0].Values {
		got = append(got, v.Instance+": "+v.First+", "+v.Last)
	}
	if want := []string{"004321 /usr/bin/beta: beta, beta", "004321 alpha: alpha, alpha"}; !slices.Equal(got, want) || !all[0].InDoms[0].Moving {
		t.Errorf("got %q, want %q; instances come and go: %v", got, want, all[0].InDoms[0].Moving)
	}
}
