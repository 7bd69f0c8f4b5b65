package rawio

import (
	"math/rand"
	"runtime"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// noRightsPair returns a Unix socket pair whose reader refuses descriptors.
func noRightsPair(t testing.TB) *pair {
	t.Helper()
	p := newPair(t, "unix")
	// RefuseRights turns this off: credentials would set MSG_CTRUNC.
	if err := syscall.SetsockoptInt(p.r, syscall.SOL_SOCKET, syscall.SO_PASSCRED, 1); err != nil {
		t.Fatal(err)
	}
	if err := RefuseRights(uintptr(p.r)); err != nil {
		t.Fatal(err)
	}
	return p
}

// sendRights sends b with the only descriptor of the write end of a pipe. It returns
// the read end.
func (p *pair) sendRights(b string, flags int) (r int) {
	p.t.Helper()
	q := newPair(p.t, "pipe")
	err := syscall.Sendmsg(p.w, []byte(b), syscall.UnixRights(q.w), nil, flags)
	if err == syscall.EOPNOTSUPP && flags != 0 {
		p.t.Skip("the kernel has no urgent bytes in Unix sockets")
	}
	if err != nil {
		p.t.Fatal(err)
	}
	q.closeWriter()
	return q.r
}

// hasWriteEnd reports whether a pipe whose read end is r has a write end.
func hasWriteEnd(t testing.TB, r int) bool {
	t.Helper()
	n, err := Read(uintptr(r), make([]byte, 1))
	if n != 0 || err != nil && err != syscall.EAGAIN {
		t.Fatalf("pipe: %d, %v", n, err)
	}
	return err == syscall.EAGAIN
}

// noRightsReads are the functions that read no descriptors.
var noRightsReads = []struct {
	name     string
	blocking bool
	read     ioFunc
}{
	{"ReadNoRights", false, ReadNoRights},
	{"ReadNoRights, blocking", true, ReadNoRights},
	{"WaitNoRights", false, WaitNoRights},
	{"WaitNoRights, blocking", true, WaitNoRights},
}

// A message with descriptors stays in the socket, and its descriptors are not
// closed. So do the bytes before it that are still in the socket when it arrives.
func TestNoRights(t *testing.T) {
	for _, tt := range noRightsReads {
		t.Run(tt.name, func(t *testing.T) {
			p := noRightsPair(t)
			if tt.blocking {
				p.setBlocking()
			}
			b := make([]byte, 100)
			read := func(want string, wantErr error) {
				t.Helper()
				n, err := tt.read(uintptr(p.r), b)
				if got := string(b[:n]); got != want || err != wantErr {
					t.Errorf("got %q, %v, want %q, %v", got, err, want, wantErr)
				}
			}
			send(uintptr(p.w), []byte("one"))
			send(uintptr(p.w), []byte(" two"))
			read("one two", nil)
			passed := p.sendRights("three", 0)
			read("", ErrRights)
			read("", ErrRights) // it is still there
			if !hasWriteEnd(t, passed) {
				t.Error("the descriptor is closed")
			}
			send(uintptr(p.w), []byte("four"))
			read("", ErrRights)
			if n, err := Recv(uintptr(p.r), b); string(b[:n]) != "three" {
				t.Errorf("left: %q, %v", b[:n], err)
			}
			testutil.Eventually(t, "Recv closes the descriptor", func() bool { return !hasWriteEnd(t, passed) })
			read("four", nil)
			send(uintptr(p.w), []byte("five"))
			passed = p.sendRights("six", 0)
			read("", ErrRights)
			if !hasWriteEnd(t, passed) {
				t.Error("the descriptor behind other bytes is closed")
			}
			for _, want := range []string{"five", "six"} {
				if n, err := Recv(uintptr(p.r), b[:len(want)]); string(b[:n]) != want {
					t.Errorf("left: %q, %v, want %q", b[:n], err, want)
				}
			}
			p.closeWriter()
			read("", nil)
		})
	}
}

// Descriptors are closed when the socket is closed, and not by a read before that.
func TestRightsStayQueued(t *testing.T) {
	p := noRightsPair(t)
	passed := p.sendRights("x", 0)
	if _, err := ReadNoRights(uintptr(p.r), make([]byte, 1)); err != ErrRights || !hasWriteEnd(t, passed) {
		t.Errorf("%v, open: %v", err, hasWriteEnd(t, passed))
	}
	p.closeReader()
	testutil.Eventually(t, "the descriptor is closed", func() bool { return !hasWriteEnd(t, passed) })
}

// An urgent byte with descriptors is not dropped.
func TestUrgentRights(t *testing.T) {
	for _, tt := range noRightsReads {
		t.Run(tt.name, func(t *testing.T) {
			p := noRightsPair(t)
			if tt.blocking {
				p.setBlocking()
			}
			queued := hasWriteEnd(t, p.sendRights("!", syscall.MSG_OOB)) // some kernels drop the descriptor when it is sent
			b := make([]byte, 10)
			n, err := tt.read(uintptr(p.r), b)
			if queued && err != ErrRights || !queued && (string(b[:n]) != "!" || err != nil) {
				t.Errorf("the descriptor is queued: %v; read %q, %v", queued, b[:n], err)
			}
		})
	}
}

// A read takes the bytes that were peeked, while more arrive in pieces of any size.
func TestPeekMatchesRead(t *testing.T) {
	const size = 1 << 20
	for _, tt := range noRightsReads {
		t.Run(tt.name, func(t *testing.T) {
			p := noRightsPair(t)
			if tt.blocking {
				p.setBlocking()
			}
			seed := rand.Int63()
			random := rand.New(rand.NewSource(seed))
			done := make(chan error, 1)
			go func() {
				random := rand.New(rand.NewSource(seed + 1))
				var b [3000]byte
				for at := 0; at < size; {
					piece := b[:min(1+random.Intn(len(b)), size-at)]
					for i := range piece {
						piece[i] = byte((at + i) % 251)
					}
					n, err := send(uintptr(p.w), piece)
					if err != nil && err != syscall.EAGAIN {
						done <- err
						return
					}
					if at += n; n == 0 {
						runtime.Gosched()
					}
				}
				done <- nil
			}()
			var b [3000]byte
			at := 0
			testutil.Eventually(t, "all bytes", func() bool {
				n, err := tt.read(uintptr(p.r), b[:1+random.Intn(len(b))])
				if err != nil && err != syscall.EAGAIN || n == 0 && err == nil {
					t.Fatal(n, err)
				}
				for _, c := range b[:n] {
					if c != byte(at%251) {
						t.Fatalf("seed %d: byte %d is %d", seed, at, c)
					}
					at++
				}
				return at == size
			})
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// With SO_PASSRIGHTS off a socket cannot hold descriptors, so Read may be used.
func TestPassrightsOff(t *testing.T) {
	const soPassrights = 83 // SO_PASSRIGHTS in asm-generic/socket.h
	p := newPair(t, "unix")
	if err := syscall.SetsockoptInt(p.r, syscall.SOL_SOCKET, soPassrights, 0); err != nil {
		t.Skip("Linux before 6.16: ", err)
	}
	if err := syscall.Sendmsg(p.w, []byte("x"), syscall.UnixRights(0), nil, 0); err != syscall.EPERM {
		t.Errorf("sent: %v", err)
	}
	b := make([]byte, 10)
	if n, err := Read(uintptr(p.r), b); n != 0 || err != syscall.EAGAIN {
		t.Errorf("read %q, %v", b[:n], err)
	}
}

func TestRefuseRightsNotSocket(t *testing.T) {
	if err := RefuseRights(uintptr(newPair(t, "pipe").r)); err == nil {
		t.Error("RefuseRights accepts a pipe")
	}
}
