package peertest

import (
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

type storeCase struct {
	args   string // an underscore in the value stands for a space
	status int
}

// TestPmstore stores values of each type, and what an agent or the daemon
// refuses, and then looks what is there.
func TestPmstore(t *testing.T) {
	for _, c := range []storeCase{
		{"sample.write_me 4", 0},
		{"sample.long.write_me -7", 0},
		{"sample.long.write_me 2147483647", 0},
		{"sample.ulong.write_me 4294967295", 0},
		{"sample.longlong.write_me -99999999999", 0},
		{"sample.ulonglong.write_me 18446744073709551615", 0},
		{"sample.float.write_me 1.5", 0},
		{"sample.double.write_me -1.25e100", 0},
		{"sample.string.write_me two_words", 0},
		{"sample.string.write_me x", 0},
		{"-F sample.write_me 9", 0},
		{"sample.bin 5", 0},
		{"-i bin-100,bin-200 sample.bin 77", 0},
		{"-i bin-500 -F sample.bin 18", 0},
		{"simple.numfetch 40", 0},
		{"simple.color 3", 0},
		{"sample.dodgey.control 5", 0},
		{"sample.dodgey.control 0", 0},
		{"sample.updown.control.step 11", 0},
		{"sample.event.reset 0", 0},
		{"-F pmcd.client.whoami somebody", 0},
		{"pmcd.seqnum 3", 0},

		{"sample.long.write_me 1.5", 1},
		{"sample.long.write_me abc", 1},
		{"sample.long.write_me 99999999999", 1},
		{"sample.ulong.write_me -3", 1},
		{"sample.aggregate.write_me foo", 1},
		{"sample.long.one 2", 1},
		{"sample.string.hullo x", 1},
		{"sample.secret.bar x", 1},
		{"sample.bad.unknown 1", 1},
		{"-i bin-900 sample.double.bin 1.5", 1},
		{"sample.bad.novalues 1", 1},
		{"sample.part_bin 3", 1},
		{"sample.error_code 0", peer.AnyStatus},
		{"sample.updown.control.repeat -1", peer.AnyStatus},
		{"-i nosuch sample.bin 3", 1},
		{"-i bin-100,nosuch sample.bin 3", 1},
		{"simple.now 3", peer.AnyStatus},
		{"-f simple.color 3", peer.AnyStatus},
		{"simple.time.user 3", 1},
		{"hinv.ncpu 3", 1},
		{"no.such 1", 1},
		{"sample.long 1", 1},
		{"kvm.exits 1", 1},
	} {
		t.Run(c.args, func(t *testing.T) {
			compareStore(t, peer.Transports, c)
		})
	}
	t.Run("afterwards", func(t *testing.T) {
		compare(t, words("pminfo -h {host} -f sample simple"), pminfo())
	})
	// As it was, for the tests that come next.
	for _, c := range []storeCase{{"sample.bin 100", 0}, {"sample.write_me 2", 0}} {
		t.Run("back: "+c.args, func(t *testing.T) { compareStore(t, peer.Transports[:1], c) })
	}
	for _, inst := range []string{"100", "200", "300", "400", "500", "600", "700", "800", "900"} {
		t.Run("back: bin-"+inst, func(t *testing.T) {
			compareStore(t, peer.Transports[:1], storeCase{"-i bin-" + inst + " sample.bin " + inst, 0})
		})
	}
}

// TestPmstoreControl changes the daemon. PCP 7.2 allows that to root only, as
// which a client is known that comes over the Unix socket.
func TestPmstoreControl(t *testing.T) {
	for _, c := range []storeCase{
		{"pmcd.control.timeout 7", 0},
		{"pmcd.control.timeout 60", 0},
		{"pmcd.control.timeout -1", 1},
		{"pmcd.control.register 9", 0},
		{"-i 3,15 pmcd.control.register 19", 0},
		{"-i 16 pmcd.control.register 19", 1},
		{"pmcd.control.register 0", 0},
		{"pmcd.control.traceconn 7", 1},
		{"pmcd.control.traceconn 1", 0},
		{"pmcd.control.traceconn 0", 0},
		{"pmcd.control.tracepdu 1", 0},
		{"pmcd.control.tracepdu 0", 0},
		{"pmcd.control.tracenobuf 2", 1},
		{"pmcd.control.tracebufs 30", 0},
		{"pmcd.control.tracebufs 20", 0},
		{"pmcd.control.tracebufs -1", 1},
		{"pmcd.control.dumptrace 1", 0},
		{"pmcd.control.dumpconn 1", 0},
		{"pmcd.pid 3", 1},
		{"-i sample pmcd.agent.fenced 7", 1},
		{"-i nosuch pmcd.agent.fenced 1", 1},
	} {
		t.Run(c.args, func(t *testing.T) {
			compareStore(t, []peer.Transport{peer.Unix}, c)
		})
	}
	t.Run("afterwards", func(t *testing.T) {
		compare(t, words("pminfo -h {host} -f pmcd.control pmcd.agent"), pminfo())
	})
}

// TestPmstoreRefused is what our daemon refuses and PCP 6.0.3 does not, so that
// there is nothing to compare with: what only root may store since 7.2, and the
// status of an agent, which PCP takes and forgets.
func TestPmstoreRefused(t *testing.T) {
	p := servers(t)
	if p.Same() {
		t.Skip("PCP 6.0.3 does not")
	}
	try := func(t *testing.T, want string, tr peer.Transport, args ...string) {
		t.Helper()
		o, err := p.Ours.Run(t.Context(), tr, client(args...))
		if err != nil {
			t.Fatal(err)
		}
		if o.Code == 0 || !strings.Contains(o.Stdout+o.Stderr, want) {
			t.Errorf("%s: want %q\n%s", o.Cmd, want, o)
		}
	}
	for _, store := range [][]string{
		{"pmcd.control.timeout", "9"}, {"pmcd.control.register", "1"}, {"pmcd.control.debug", "pdu"},
		{"pmcd.control.dumptrace", "1"}, {"pmcd.control.sighup", "1"}, {"pmcd.agent.fenced", "1"}, {"pmcd.pid", "1"},
	} {
		t.Run(store[0], func(t *testing.T) {
			try(t, "No permission", peer.TCP4, "pmstore", "-h", "{host}", store[0], store[1])
			if os.Geteuid() == 0 {
				try(t, "No permission", peer.Unix, "runuser", "-u", "nobody", "--", "pmstore", "-h", "{host}", store[0], store[1])
			}
		})
	}
	try(t, "Unknown or illegal metric", peer.Unix, "pmstore", "-h", "{host}", "pmcd.agent.status", "3")
}

// TestFence takes an agent away from all clients and gives it back.
func TestFence(t *testing.T) {
	unix := []peer.Transport{peer.Unix}
	compareStore(t, unix, storeCase{"-i sample pmcd.agent.fenced 1", 0})
	t.Run("fenced", func(t *testing.T) {
		for _, args := range []string{"-f", "-d", "-t", "-l", "-I"} {
			t.Run(args, func(t *testing.T) {
				compare(t, words("pminfo -h {host} "+args+" sample.long.one sample.bin simple.numfetch pmcd.agent.fenced"), pminfo())
			})
		}
		compare(t, words("pminfo -h {host} -m sample.long"), pminfo())
		// A fence is no reason to hide other names of a look-up, as C pmcd does.
		got := output(t, servers(t).Ours, "pminfo -h {host} -m sample.secret sample.long")
		for _, want := range []string{"sample.secret PMID: PM_ID_NULL", "sample.long.one PMID: 29.0.10"} {
			if !strings.Contains(got, want) {
				t.Errorf("pminfo sample.secret sample.long: no %q in\n%s", want, got)
			}
		}
		compare(t, words("pmstore -h {host} sample.write_me 3"), peer.Comparison{Status: peer.AnyStatus})
	})
	compareStore(t, unix, storeCase{"-i sample pmcd.agent.fenced 0", 0})
	compare(t, words("pminfo -h {host} -f sample.long.one pmcd.agent.fenced"), pminfo())
}

// TestNotReady has an agent sleep: it reports that it is not ready at the next request,
// and that it is ready when it is.
func TestNotReady(t *testing.T) {
	p := servers(t)
	compareStore(t, []peer.Transport{peer.TCP4}, storeCase{"sample.not_ready 2", 0})
	one := words("pminfo -h {host} -f sample.long.one simple.numfetch")
	t.Run("asleep", func(t *testing.T) {
		p.Compare(t, peer.TCP4, one, pminfo())
	})
	for _, d := range []*peer.Daemon{p.C, p.Ours} {
		if !peer.Until(testutil.Hangs, func() bool {
			o, err := d.Run(t.Context(), peer.TCP4, words("pminfo -h {host} -f sample.long.one"))
			return err == nil && strings.Contains(o.Stdout, "value 1")
		}) {
			t.Errorf("%s: the agent did not come back", d.Path)
		}
	}
	t.Run("awake", func(t *testing.T) {
		compare(t, words("pminfo -h {host} -f sample.long.one pmcd.agent.status"), pminfo())
	})
}

// compareStore runs pmstore, whose new value is one argument.
func compareStore(t *testing.T, trs []peer.Transport, c storeCase) {
	t.Helper()
	p := servers(t)
	cl := words("pmstore -h {host} " + c.args)
	last := &cl.Args[len(cl.Args)-1]
	*last = strings.ReplaceAll(*last, "_", " ")
	for _, tr := range trs {
		t.Run(tr.String(), func(t *testing.T) {
			usable(t, tr)
			// The instances of pmcd.client.* are numbered by connections.
			cmp := peer.Comparison{Differences: differences, Status: c.status}
			if strings.Contains(c.args, "pmcd.client.") {
				cmp.Default = peer.Shape
			}
			p.Compare(t, tr, cl, cmp)
		})
	}
}
