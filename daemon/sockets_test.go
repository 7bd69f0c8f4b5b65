package daemon

import (
	"testing"

	"golang.org/x/sys/unix"
)

// The reserve follows the limit and the number of agents. A process with few
// descriptors has clients, too.
func TestReserve(t *testing.T) {
	for _, tt := range []struct {
		limit            uint64
		agents           int
		reserve, clients int64
		short            bool
	}{
		{1 << 20, 9, 1187, 1<<20 - 1187, false},
		{20000, 9, 1187, 18813, false},
		{20000, 80, 2323, 17677, false},
		{1024, 9, 515, 509, false},
		{512, 3, 355, 157, false},
		{512, 9, 451, 128, true},
		{256, 9, 419, 64, true},
		{40, 1, 264, 10, true},
		{3, 1, 259, 1, true},
		{0, 1, 259, 1, true},
	} {
		need := reserve(tt.limit, 3, tt.agents)
		clients, short := maxClients(tt.limit, need)
		if int64(need) != tt.reserve || clients != tt.clients || short != tt.short {
			t.Errorf("%d descriptors, %d agents: reserve %d, clients %d, short %v; want %d, %d, %v",
				tt.limit, tt.agents, need, clients, short, tt.reserve, tt.clients, tt.short)
		}
	}
}

// As many clients are accepted as the limit says, and another one when the socket
// of one of them is closed.
func TestClientLimit(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		r := newRig(t, nil, nil)
		r.settled()
		addr := map[string]string{"tcp": r.tcp, "unix": r.unix}[network]
		r.sockets.limit.Store(3)
		var in []*client
		for range 3 {
			c := r.dialTo(network, addr, 0)
			c.ask()
			in = append(in, c)
		}
		late := r.connect(network, addr)
		eventually(t, "accept stops", func() bool { return r.logged("AcceptNewClient: 3 clients are connected") })
		if n := r.clients.len(); n != 3 {
			t.Errorf("%s: %d clients", network, n)
		}
		for _, c := range in {
			c.ask()
		}
		in[1].conn.Close()
		if got := show(late.recv()); got != "0" {
			t.Errorf("%s: %s", network, got)
		}
		if n := r.sockets.open.Load(); n != 3 {
			t.Errorf("%s: %d sockets are open", network, n)
		}
	}
}

// A limit that is too low for what agents may need is told of, once.
func TestSmallLimit(t *testing.T) {
	r := newRig(t, nil, nil)
	r.settled()
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &had)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 100, Max: had.Max}); err != nil {
		t.Fatal(err)
	}
	r.limitClients()
	r.limitClients()
	const want = "RLIMIT_NOFILE is 100: pmcd and its agents may need 318 descriptors and have 75, and at most 25 clients are accepted; raise it (LimitNOFILE=, ulimit -n)"
	n := 0
	for _, e := range r.logs.All() {
		if e.Message == want {
			n++
		}
	}
	if n != 1 || r.sockets.limit.Load() != 25 {
		t.Errorf("%d lines, limit %d", n, r.sockets.limit.Load())
	}
}
