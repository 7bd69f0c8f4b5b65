package daemon

import (
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// Agents connect to pmdaroot (domain 1) once, when they start: it is there
// before any of them is started.
func TestRootStartsFirst(t *testing.T) {
	var rootGreeted atomic.Bool
	var early atomic.Int32
	root, other := serveAgent(&tester{domain: 1}), serveAgent(&tester{domain: 240})
	mayGreet := make(chan struct{})
	r := newRig(t, func(c *Config) {
		os.WriteFile(c.ConfigFile, []byte("t 240 pipe binary t\nu 241 pipe binary u\nroot 1 pipe binary r\n"), 0o666)
	}, map[int]func(wire.Conn){
		1: func(c wire.Conn) {
			<-mayGreet
			rootGreeted.Store(true)
			root(c)
		},
		240: func(c wire.Conn) {
			if !rootGreeted.Load() {
				early.Add(1)
			}
			other(c)
		},
	})
	eventually(t, "root started", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.opens[1] == 1
	})
	r.mu.Lock()
	if r.opens[240]+r.opens[241] > 0 {
		t.Error("others were started while root had not greeted")
	}
	r.mu.Unlock()
	close(mayGreet)
	r.settled()
	if n := early.Load(); n > 0 {
		t.Error("an agent ran before root had greeted")
	}
	if m := r.dial().do(&pdu.DescReq{PMID: id(240, 1)}); m.Type() != pdu.TypeDesc {
		t.Errorf("afterwards: %s", show(m))
	}
}

// A second pmcd leaves the socket of one that runs alone; the file that one
// has left behind is replaced; any other file is left alone.
func TestUnixSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	first, err := Listen(nil, nil, path)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(nil, nil, path); err == nil {
		l.Close()
		t.Error("the socket of a running pmcd was taken")
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the first pmcd has lost its socket: %v", err)
	}
	conn.Close()
	first.file = "" // as after a kill -9
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(nil, nil, path)
	if err != nil {
		t.Fatalf("a stale socket is in the way: %v", err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	again.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}

	if err := os.WriteFile(path, []byte("precious"), 0o666); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(nil, nil, path); err == nil {
		l.Close()
		t.Error("a file was replaced")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file is %q, %v", b, err)
	}
}
