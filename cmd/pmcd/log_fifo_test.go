package main

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// pmcd writes to a FIFO as long as it is read, and goes on when it is not.
func TestLogToFIFO(t *testing.T) {
	p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
	if err := syscall.Mkfifo(p.At("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(p.At("fifo"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.SetReadDeadline(time.Now().Add(testutil.Hangs))

	// A start that fails has nothing to copy from there.
	code, _ := p.Run("-f", "-l", "fifo", "-c", "none", "-x", "fatal")
	if text := pmcdtest.Read(p.At("fatal")); code != 1 || text != "NOTE: pmcd not started due to errors!  open none: no such file or directory\n" {
		t.Errorf("status %d, and the file of -x has %q", code, text)
	}
	if b, _ := io.ReadAll(r); !bytes.HasPrefix(b, []byte("Log for pmcd on ")) {
		t.Errorf("read %q", b)
	}

	cmd := p.Command("-f", "-l", "fifo")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var got []byte
	buf := make([]byte, 4096)
	if !peer.Until(peer.Hangs, func() bool {
		n, _ := r.Read(buf) // nothing before pmcd has opened it
		got = append(got, buf[:n]...)
		return bytes.Contains(got, []byte("pmcd request port(s):"))
	}) {
		t.Fatalf("the FIFO has %q", got)
	}
	r.Close()
	// What pmcd logs from now on has no reader.
	f, err := pmcdtest.Connect(p.At("run/sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd.Process.Signal(syscall.SIGHUP)
	if !peer.Until(peer.Hangs, func() bool {
		n, err := pmcdtest.Value(f, pdu.NewPMID(2, 0, 22)) // pmcd.sighups
		return err != nil || n == 1
	}) {
		t.Error("SIGHUP has no effect")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if fi, err := os.Lstat(p.At("fifo")); err != nil || fi.Mode().Type() != fs.ModeNamedPipe || p.Exists("fifo.prev") {
		t.Errorf("the FIFO is now %v, %v", fi, err)
	}
}

// A FIFO whose reader has stopped stops neither the acceptor, which logs here itself, nor the
// end of pmcd.
func TestLogToFullFIFO(t *testing.T) {
	p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
	if err := syscall.Mkfifo(p.At("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	fifo, err := syscall.Open(p.At("fifo"), syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fifo)
	cmd := p.Command("-f", "-l", "fifo", "-D", "appl3")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	if !peer.Until(peer.Hangs, func() bool {
		f, err := pmcdtest.Connect(p.At("run/sock"))
		if err == nil {
			f.Close()
		}
		return err == nil
	}) {
		t.Fatal("pmcd does not start")
	}
	fillPipe(fifo)
	for range 3 {
		f, err := pmcdtest.Connect(p.At("run/sock"))
		if err != nil {
			t.Fatal("not greeted:", err)
		}
		defer f.Close()
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// fillPipe writes to a pipe in non-blocking mode until it is full.
func fillPipe(pipe int) {
	for _, size := range []int{4096, 1} {
		for err := error(nil); err == nil; {
			_, err = syscall.Write(pipe, make([]byte, size))
		}
	}
}
