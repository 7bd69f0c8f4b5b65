package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
)

// newTestPipes returns Pipes, and the end that the child would write to. Both are
// closed when t ends; a descriptor that is still open then is an error.
func newTestPipes(t *testing.T) (p *Pipes, childEnd *os.File) {
	t.Helper()
	testutil.CheckLeaks(t)
	r, childEnd, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p = NewPipes(r, w)
	t.Cleanup(func() {
		p.Close()
		childEnd.Close()
		stdin.Close()
	})
	return p, childEnd
}

// readDirect is ReadDirect that goes on after a signal, which Go's runtime sends to its threads.
func readDirect(p *Pipes, b []byte) (n int, err error) {
	testutil.Until(testutil.Hangs, func() bool {
		n, err = p.ReadDirect(b, testutil.Hangs)
		return err != syscall.EAGAIN
	})
	return n, err
}

func setDirect(t *testing.T, p *Pipes, on bool) {
	t.Helper()
	if !p.Direct(on) {
		t.Fatalf("Direct(%v) is not possible", on)
	}
}

// ReadDirect returns what is available, or waits for it.
func TestReadDirect(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, p *Pipes, childEnd *os.File)
		want string
		err  error
	}{
		{"data available", func(_ *testing.T, _ *Pipes, childEnd *os.File) { childEnd.WriteString("abc") }, "abc", nil},
		{"data from before Direct", func(t *testing.T, p *Pipes, childEnd *os.File) {
			setDirect(t, p, false)
			childEnd.WriteString("abc")
			setDirect(t, p, true)
		}, "abc", nil},
		{"data that arrives later", func(_ *testing.T, _ *Pipes, childEnd *os.File) {
			time.AfterFunc(5*time.Millisecond, func() { childEnd.WriteString("abc") })
		}, "abc", nil},
		{"end of file", func(_ *testing.T, _ *Pipes, childEnd *os.File) { childEnd.Close() }, "", io.EOF},
		{"data, then end of file", func(_ *testing.T, _ *Pipes, childEnd *os.File) {
			childEnd.WriteString("abc")
			childEnd.Close()
		}, "abc", nil},
		{"closed", func(_ *testing.T, p *Pipes, _ *os.File) { p.Close() }, "", os.ErrClosed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, childEnd := newTestPipes(t)
			setDirect(t, p, true)
			setDirect(t, p, true) // no change
			tt.do(t, p, childEnd)
			b := make([]byte, 10)
			n, err := readDirect(p, b)
			if string(b[:n]) != tt.want || err != tt.err {
				t.Errorf("got %q, %v, want %q, %v", b[:n], err, tt.want, tt.err)
			}
		})
	}
	t.Run("no data", func(t *testing.T) {
		p, _ := newTestPipes(t)
		setDirect(t, p, true)
		for range 100 { // a signal ends the wait early
			began := time.Now()
			if n, err := p.ReadDirect(make([]byte, 10), 20*time.Millisecond); n != 0 || err != syscall.EAGAIN {
				t.Fatalf("got %d, %v", n, err)
			}
			if time.Since(began) >= 20*time.Millisecond {
				return
			}
		}
		t.Error("no read has waited for 20 ms")
	})
}

// Close ends a read of either kind; a direct read once it has waited long enough.
func TestCloseWhileReading(t *testing.T) {
	for _, on := range []bool{false, true} {
		t.Run(fmt.Sprintf("direct=%v", on), func(t *testing.T) {
			p, _ := newTestPipes(t)
			setDirect(t, p, on)
			reading, read := make(chan struct{}), make(chan error)
			go func() {
				b := make([]byte, 10)
				close(reading)
				if !on {
					_, err := p.Read(b)
					read <- err
					return
				}
				for {
					if _, err := p.ReadDirect(b, time.Millisecond); err != syscall.EAGAIN {
						read <- err
						return
					}
				}
			}()
			<-reading
			if err := p.Close(); err != nil {
				t.Error(err)
			}
			if err := <-read; !errors.Is(err, os.ErrClosed) {
				t.Errorf("got %v, want %v", err, os.ErrClosed)
			}
			if p.Direct(!on) || p.Close() != nil {
				t.Error("after Close, Direct works or a second Close fails")
			}
		})
	}
}

// No data is lost or read twice while direct reads are switched on and off under
// load, and each deadline of the poller works.
func TestDirectOnAndOff(t *testing.T) {
	p, childEnd := newTestPipes(t)
	const size = 1 << 20
	sent := make([]byte, size)
	for i := range sent {
		sent[i] = byte(i * i >> 8)
	}
	go func() {
		for b := sent; len(b) > 0; {
			n, err := childEnd.Write(b[:min(len(b), 1+len(b)%977)])
			if err != nil {
				return
			}
			b = b[n:]
		}
		childEnd.Close()
	}()
	var got []byte
	b := make([]byte, 1000)
	for i := 0; ; i++ {
		on := i%3 == 0
		setDirect(t, p, on)
		var n int
		var err error
		if on {
			n, err = readDirect(p, b)
		} else {
			p.SetReadDeadline(time.Now().Add(testutil.Hangs))
			n, err = p.Read(b)
		}
		got = append(got, b[:n]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, sent) {
		t.Errorf("read %d bytes that differ from the %d bytes sent", len(got), len(sent))
	}
}

// Deadlines work for reads through the poller after direct reads.
func TestDeadlineAfterDirect(t *testing.T) {
	p, _ := newTestPipes(t)
	setDirect(t, p, true)
	setDirect(t, p, false)
	p.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := p.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("got %v, want %v", err, os.ErrDeadlineExceeded)
	}
}

// When no descriptor is free, direct reads stay on.
func TestPipesWithoutDescriptors(t *testing.T) {
	p, childEnd := newTestPipes(t)
	setDirect(t, p, true)
	spare, err := os.Open("/dev/null") // once it is closed, the lowest free descriptor
	if err != nil {
		t.Fatal(err)
	}
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	var files []int // fills all descriptors below spare
	for fd := 0; fd <= int(spare.Fd()); {
		if fd, err = syscall.Dup(0); err != nil {
			t.Fatal(err)
		}
		files = append(files, fd)
	}
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: uint64(spare.Fd()), Max: old.Max})
	off := p.Direct(false)
	r, w, _ := os.Pipe()
	syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)
	for _, fd := range files {
		unix.Close(fd)
	}
	spare.Close()
	if off || r != nil || w != nil {
		t.Fatalf("a descriptor was free: Direct(false) = %v", off)
	}
	childEnd.WriteString("abc")
	b := make([]byte, 10)
	if n, err := readDirect(p, b); string(b[:n]) != "abc" || err != nil {
		t.Errorf("got %q, %v", b[:n], err)
	}
	setDirect(t, p, false)
	childEnd.WriteString("def")
	if n, err := p.Read(b); string(b[:n]) != "def" || err != nil {
		t.Errorf("then %q, %v", b[:n], err)
	}
}

// Pipes without a second descriptor have no direct reads.
func TestNotDirect(t *testing.T) {
	p, childEnd := newTestPipes(t)
	unix.Close(p.in)
	p.in = -1
	if p.Direct(true) {
		t.Error("Direct(true) is possible")
	}
	childEnd.WriteString("abc")
	b := make([]byte, 10)
	if n, err := p.Read(b); string(b[:n]) != "abc" || err != nil {
		t.Errorf("got %q, %v", b[:n], err)
	}
	if in, out := p.FDs(); in < 0 || out < 0 {
		t.Errorf("FDs() = %d, %d", in, out)
	}
}
