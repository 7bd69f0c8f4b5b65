package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
)

// What is not a file stays where it is and what it is.
func TestCreateLog(t *testing.T) {
	const null = 1<<8 | 3 // the device
	made := func(what func(path string) error) func(*testing.T, string) {
		return func(t *testing.T, path string) {
			if err := what(path); errors.Is(err, fs.ErrPermission) {
				t.Skip(err) // only root makes devices
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	link := func(to string) func(*testing.T, string) {
		return made(func(path string) error { return os.Symlink(to, path) })
	}
	for _, tt := range []struct {
		name  string
		make  func(t *testing.T, path string)
		moved bool
		err   string
	}{
		{name: "nothing", make: func(*testing.T, string) {}},
		{name: "file", make: made(func(path string) error { return os.WriteFile(path, []byte("old"), 0o666) }), moved: true},
		{name: "device", make: made(func(path string) error { return syscall.Mknod(path, syscall.S_IFCHR|0o666, null) })},
		{name: "FIFO without reader", make: made(func(path string) error { return syscall.Mkfifo(path, 0o666) }), err: "no such device or address"},
		{name: "directory", make: made(func(path string) error { return os.Mkdir(path, 0o777) }), err: "neither a file nor a FIFO nor a device for characters"},
		{name: "link to the null device", make: link("/dev/null")},
		{name: "link to the output", make: link("/proc/self/fd/2")},
		{name: "link to another device", make: link("/dev/zero"), err: "a link to what is not a file"},
		{name: "link to a directory", make: link("."), err: "a link to what is not a file"},
		{name: "link to a file", make: link("other"), moved: true},
		{name: "link to nothing", make: link("none"), moved: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path, other := filepath.Join(dir, "log"), filepath.Join(dir, "other")
			if err := os.WriteFile(other, []byte("not for us"), 0o666); err != nil {
				t.Fatal(err)
			}
			tt.make(t, path)
			before, _ := os.Lstat(path)
			f, err := createLog(path)
			switch {
			case err == nil && tt.err == "":
				defer f.Close()
			case err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err):
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if before != nil && !tt.moved {
				if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) || after.Mode() != before.Mode() {
					t.Errorf("it was %v and is %v, %v", before.Mode(), after, err)
				}
			}
			prev, err := os.Lstat(path + ".prev")
			if tt.moved != (err == nil) || tt.moved && !os.SameFile(before, prev) {
				t.Errorf("the file before: %v, %v", prev, err)
			}
			if tt.moved {
				if fi, err := os.Lstat(path); err != nil || !fi.Mode().IsRegular() || fi.Size() != 0 {
					t.Errorf("the new file: %v, %v", fi, err)
				}
			}
			if b, _ := os.ReadFile(other); string(b) != "not for us" {
				t.Errorf("another file has %q", b)
			}
		})
	}
}

// pmcd writes to a FIFO as long as it is read, and goes on when it is not.
func TestLogToFIFO(t *testing.T) {
	p := newPlace(t, self(t))
	if err := syscall.Mkfifo(p.at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(p.at("fifo"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	r.SetReadDeadline(time.Now().Add(20 * time.Second))

	// A start that fails has nothing to copy from there.
	code, _ := p.run("-f", "-l", "fifo", "-c", "none", "-x", "fatal")
	if text := read(p.at("fatal")); code != 1 || text != "NOTE: pmcd not started due to errors!  open none: no such file or directory\n" {
		t.Errorf("status %d, and the file of -x has %q", code, text)
	}
	if b, _ := io.ReadAll(r); !bytes.HasPrefix(b, []byte("Log for pmcd on ")) {
		t.Errorf("read %q", b)
	}

	cmd := p.command("-f", "-l", "fifo")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var got []byte
	buf := make([]byte, 4096)
	if !peer.Until(20*time.Second, func() bool {
		n, _ := r.Read(buf) // nothing before pmcd has opened it
		got = append(got, buf[:n]...)
		return bytes.Contains(got, []byte("pmcd request port(s):"))
	}) {
		t.Fatalf("the FIFO has %q", got)
	}
	r.Close()
	// It says what it has been told, to nobody.
	f, err := dialFetcher(p.at("run/sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.conn.Close()
	cmd.Process.Signal(syscall.SIGHUP)
	if !peer.Until(20*time.Second, func() bool {
		n, err := f.fetch(pdu.NewPMID(2, 0, 22)) // pmcd.sighups
		return err != nil || n == 1
	}) {
		t.Error("SIGHUP has no effect")
	}
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if fi, err := os.Lstat(p.at("fifo")); err != nil || fi.Mode().Type() != fs.ModeNamedPipe || p.exists("fifo.prev") {
		t.Errorf("the FIFO is now %v, %v", fi, err)
	}
}
