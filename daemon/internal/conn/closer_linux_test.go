package conn

import (
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/testutil"
)

// Closes are bounded for all users and for one, and are done in turn.
func TestCloser(t *testing.T) {
	var k closer
	blocked, begun := make(chan struct{}), make(chan string, 1000)
	block := func(name string) func() {
		return func() {
			begun <- name
			<-blocked
		}
	}
	for i := range 100 {
		k.close(1, block(fmt.Sprint("a", i)))
	}
	for range maxUserCloses {
		<-begun
	}
	// Another user's are not held up.
	done := make(chan struct{})
	k.close(2, func() { close(done) })
	<-done
	for uid := uint32(2); uid < 10; uid++ {
		for i := range maxUserCloses {
			k.close(uid, block(fmt.Sprint(uid, i)))
		}
	}
	for range maxCloses - maxUserCloses {
		<-begun
	}
	k.mu.Lock()
	if k.busy != maxCloses {
		t.Errorf("%d at a time, want %d", k.busy, maxCloses)
	}
	k.mu.Unlock()
	select {
	case name := <-begun:
		t.Errorf("%s is one too many", name)
	default:
	}
	k.wait(time.Millisecond) // returns although all are blocked
	close(blocked)
	testutil.Eventually(t, "all are closed", func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return len(k.users) == 0 && k.busy == 0 && len(k.order) == 0
	})
	k.wait(time.Hour)
}

// When all closes that may block do so, clients that have left no descriptors are
// closed, and others can connect in their places. A client that has left descriptors
// sees the end of its connection.
func TestBlockedCloses(t *testing.T) {
	h := newHarness(t, kind{network: "unix", rights: true}, 100)
	other := h.dial()
	other.ask("xy")
	blocked := make(chan struct{})
	unblock := sync.OnceFunc(func() { close(blocked) })
	defer unblock()
	for uid := range uint32(maxCloses) {
		h.loop.heldCloser.close(uid, func() { <-blocked })
	}
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
