package conn

import (
	"io"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
)

// When all closes that may block do so, clients that have left no descriptors are
// closed, and others can connect in their places. A client that has left descriptors
// sees the end of its connection.
func TestBlockedCloses(t *testing.T) {
	h := newHarness(t, kind{network: "unix", rights: true}, 100)
	other := h.dial()
	other.ask("xy")
	for range maxHeldCloses {
		h.loop.heldCloses <- struct{}{}
	}
	unblock := sync.OnceFunc(func() {
		for range maxHeldCloses {
			<-h.loop.heldCloses
		}
	})
	defer unblock()
	for name, disconnect := range map[string]func(p *peer){
		"at once":                   func(p *peer) {},
		"in the middle of a PDU":    func(p *peer) { p.ask("a+") },
		"with input that is unread": func(p *peer) { p.s.c.Interrupt(io.ErrNoProgress); p.conn.Write(make([]byte, 10_000)) },
	} {
		for range 20 {
			p := h.dial()
			disconnect(p)
			p.conn.Close()
		}
		testutil.Eventually(t, name+": all are closed", func() bool { return h.Stats().Open == 1 })
	}

	p := h.dial()
	p.ask("xy")
	raw, err := p.conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	raw.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), []byte("xy"), unix.UnixRights(0), nil, 0) })
	if err != nil {
		t.Fatal(err)
	}
	p.disconnected()
	<-p.s.ended
	if p.s.err != ErrRights {
		t.Errorf("ended with %v", p.s.err)
	}
	if n := h.Stats().Open; n != 2 {
		t.Errorf("%d connections are open, want 2: one waits for its turn", n)
	}
	unblock()
	testutil.Eventually(t, "it is closed", func() bool { return h.Stats().Open == 1 })
	other.ask("xy")
}
