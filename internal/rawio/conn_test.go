package rawio

import (
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// files returns the ends of p as files in Go's poller, which close them.
func (p *pair) files() (r, w *os.File) {
	r, w = os.NewFile(uintptr(p.r), "reader"), os.NewFile(uintptr(p.w), "writer")
	p.r, p.w = -1, -1
	p.t.Cleanup(func() {
		r.Close()
		w.Close()
	})
	return r, w
}

func rawConn(t testing.TB, c syscall.Conn) syscall.RawConn {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// streamKinds are the kinds of streams, with and without descriptors in the queue.
var streamKinds = []struct {
	name, kind string
	rights     bool
}{{"pipe", "pipe", false}, {"tcp", "tcp", false}, {"unix", "unix", false}, {"unix with descriptors", "unix", true}}

func TestReaderAndWriter(t *testing.T) {
	for _, tt := range streamKinds {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, tt.kind)
			if tt.rights {
				if err := RefuseRights(uintptr(p.r)); err != nil {
					t.Fatal(err)
				}
			}
			rf, wf := p.files()
			r, w := NonblockReader{Rights: tt.rights}, NonblockWriter{Rights: tt.rights}
			r.Init(rawConn(t, rf))
			w.Init(rawConn(t, wf))

			// The writer does not wait, the reader does.
			sent := bytes.Repeat([]byte("0123456789"), 2<<20)
			rest, err := w.Write(sent)
			if err != nil || len(rest) == 0 || len(rest) == len(sent) || !bytes.Equal(rest, sent[len(sent)-len(rest):]) {
				t.Fatalf("%d of %d bytes are left, %v", len(rest), len(sent), err)
			}
			done := make(chan error, 1)
			go func() {
				_, err := wf.Write(rest) // waits
				wf.Close()
				done <- err
			}()
			rf.SetReadDeadline(time.Now().Add(time.Minute))
			got, err := io.ReadAll(&r)
			if err != nil || !bytes.Equal(got, sent) {
				t.Errorf("read %d bytes of %d, %v", len(got), len(sent), err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if n, err := r.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("at the end: %d, %v", n, err)
			}
			if _, err := w.Write([]byte("x")); err == nil {
				t.Error("a write to a closed stream succeeds")
			}
		})
	}
}

// A Read takes MaxSyscallBytes at most. A Write continues after that many bytes.
func TestMaxSyscallBytes(t *testing.T) {
	p := newPair(t, "pipe")
	const room = 1 << 20
	if _, _, err := syscall.Syscall(syscall.SYS_FCNTL, uintptr(p.w), syscall.F_SETPIPE_SZ, room); err != 0 {
		testutil.Missing(t, err)
	}
	rf, wf := p.files()
	var r NonblockReader
	var w NonblockWriter
	r.Init(rawConn(t, rf))
	w.Init(rawConn(t, wf))
	sent := make([]byte, room)
	if rest, err := w.Write(sent); len(rest) > 0 || err != nil {
		t.Errorf("%d bytes are left, %v", len(rest), err)
	}
	if n, err := r.Read(make([]byte, room)); n != MaxSyscallBytes || err != nil {
		t.Errorf("read %d, %v, want %d", n, err, MaxSyscallBytes)
	}
}

// WriteFD writes as Write does, in a function that waits for room.
func TestWriteFD(t *testing.T) {
	for _, tt := range streamKinds {
		t.Run(tt.name, func(t *testing.T) {
			rf, wf := newPair(t, tt.kind).files()
			w := NonblockWriter{Rights: tt.rights}
			raw := rawConn(t, wf)
			w.Init(raw)
			sent := bytes.Repeat([]byte("0123456789"), 2<<20)
			rest, waits := sent, 0
			got := make(chan []byte, 1)
			go func() {
				b, _ := io.ReadAll(rf)
				got <- b
			}()
			err := raw.Write(func(fd uintptr) bool {
				var err error
				if rest, err = w.WriteFD(fd, rest); err != nil {
					t.Error(err)
				}
				waits++
				return len(rest) == 0 || err != nil
			})
			wf.Close()
			if b := <-got; err != nil || waits < 2 || !bytes.Equal(b, sent) {
				t.Errorf("read %d bytes of %d after %d writes, %v", len(b), len(sent), waits, err)
			}
		})
	}
}

func TestReaderDeadline(t *testing.T) {
	rf, wf := newPair(t, "unix").files()
	var r NonblockReader
	r.Init(rawConn(t, rf))
	rf.SetReadDeadline(time.Unix(1, 0))
	if n, err := r.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d, %v", n, err)
	}
	rf.SetReadDeadline(time.Time{})
	wf.Write([]byte("x"))
	if n, err := r.Read(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("afterwards: %d, %v", n, err)
	}
}

func TestReaderRefusesRights(t *testing.T) {
	p := noRightsPair(t)
	passed := p.sendRights("x", 0)
	rf, _ := p.files()
	r := NonblockReader{Rights: true}
	r.Init(rawConn(t, rf))
	if n, err := r.Read(make([]byte, 1)); n != 0 || err != ErrRights {
		t.Errorf("%d, %v", n, err)
	}
	if !hasWriteEnd(t, passed) {
		t.Error("the descriptor is closed")
	}
}

// A write to a socket in blocking mode does not wait.
func TestWriterOfSocket(t *testing.T) {
	for _, tt := range streamKinds[1:] {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, tt.kind)
			p.setBlocking()
			w := NonblockWriter{Rights: tt.rights}
			w.InitSocket(uintptr(p.w))
			sent := make([]byte, 32<<20)
			rest, err := w.Write(sent)
			if err != nil || len(rest) == 0 || len(rest) == len(sent) {
				t.Errorf("%d of %d bytes are left, %v", len(rest), len(sent), err)
			}
			p.closeReader()
			testutil.Eventually(t, "an error", func() bool {
				_, err = w.Write([]byte("x"))
				return err != nil
			})
			if err != syscall.EPIPE && err != syscall.ECONNRESET {
				t.Error(err)
			}
			// The error is not kept for the next socket.
			q := newPair(t, tt.kind)
			w.InitSocket(uintptr(q.w))
			if rest, err := w.Write([]byte("text")); len(rest) > 0 || err != nil {
				t.Errorf("%d bytes are left, %v", len(rest), err)
			}
			q.readAll(Recv, "text")
		})
	}
}

func TestAllocations(t *testing.T) {
	for _, tt := range streamKinds {
		t.Run(tt.name, func(t *testing.T) {
			p := newPair(t, tt.kind)
			if tt.rights {
				if err := RefuseRights(uintptr(p.r)); err != nil {
					t.Fatal(err)
				}
			}
			rf, wf := p.files()
			r, w := NonblockReader{Rights: tt.rights}, NonblockWriter{Rights: tt.rights}
			r.Init(rawConn(t, rf))
			w.Init(rawConn(t, wf))
			b := make([]byte, 10)
			if n := testing.AllocsPerRun(100, func() {
				if rest, err := w.Write(b); len(rest) > 0 || err != nil {
					t.Fatal(len(rest), err)
				}
				for n := 0; n < len(b); {
					m, err := r.Read(b[n:])
					if err != nil {
						t.Fatal(err)
					}
					n += m
				}
			}); n > 0 {
				t.Errorf("%v allocations for a write and a read", n)
			}
		})
	}
}
