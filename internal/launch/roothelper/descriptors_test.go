package roothelper

import (
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/pmcdconf"
)

// withoutDescriptors calls f while this process can open only n more descriptors.
func withoutDescriptors(t *testing.T, n int, f func()) {
	t.Helper()
	var fill []*os.File
	defer func() { closeAll(fill) }()
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	low := limit
	low.Cur = uint64(len(fdList()) + n + 20)
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	defer syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	for {
		fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			break
		}
		fill = append(fill, os.NewFile(uintptr(fd), os.DevNull))
	}
	if len(fill) < n {
		t.Fatalf("%d descriptors could be opened, want %d or more", len(fill), n)
	}
	closeAll(fill[:n])
	fill = fill[n:]
	f()
}

// If descriptors do not arrive, receive returns an error and those that did arrive.
func TestReceiveWithoutDescriptors(t *testing.T) {
	c, socket, err := pair()
	must(t, err)
	defer c.Close()
	other, err := newConn(socket)
	must(t, err)
	defer other.Close()
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	for n := range 3 {
		withoutDescriptors(t, n, func() {
			must(t, withFDs([]*os.File{null, null}, func(fds []int) error {
				return other.send(message{kind: msgStarted, id: 7, pid: 8}, fds...)
			}))
			m, files, err := c.receive()
			if len(files) != n || m.kind != msgStarted || m.id != 7 {
				t.Errorf("with room for %d: %d descriptors, %+v", n, len(files), m)
			}
			if want := map[bool]error{true: ErrDescriptors}[n < 2]; !errors.Is(err, want) {
				t.Errorf("with room for %d: %v, want %v", n, err, want)
			}
			closeAll(files)
		})
	}
}

// If a process comes without the pipes that it needs, Start fails, and the process
// is stopped.
func TestStartWithoutPipes(t *testing.T) {
	for _, kind := range []pmcdconf.Kind{pmcdconf.Pipe, pmcdconf.DSO, pmcdconf.Socket} {
		for n := range 3 { // descriptors
			if n == 0 == (kind == pmcdconf.Socket) && n != 1 {
				continue // the right number
			}
			c, socket, err := pair()
			must(t, err)
			other, err := newConn(socket)
			must(t, err)
			client := newClient(c, helperStopTimeout)
			r, w, err := os.Pipe()
			must(t, err)
			go func() {
				m, files, _ := other.receive()
				closeAll(files)
				withFDs([]*os.File{r, w}[:n], func(fds []int) error {
					return other.send(message{kind: msgStarted, id: m.id, pid: 4711}, fds...)
				})
				closeAll([]*os.File{r, w})
			}()
			p, err := client.Start(t.Context(), &pmcdconf.Agent{Domain: 1, Kind: kind}, os.Stderr)
			if err == nil || p != nil || !strings.Contains(err.Error(), "descriptors") {
				t.Errorf("%v with %d descriptors: %v, %v", kind, n, p, err)
			}
			if m, _, err := other.receive(); err != nil || m.kind != msgStop {
				t.Errorf("%v with %d descriptors: %+v, %v", kind, n, m, err)
			}
			other.Close()
			<-client.Lost()
			c.Close()
		}
	}
}

// The root helper and the daemon, which are one process here, have no descriptors
// left at any point of a start. The start may fail, and the next one works.
func TestStartWithoutDescriptors(t *testing.T) {
	r, list := newHarness(t, "echo 1 pipe binary PROGRAM\n")
	p, err := r.start(list[0]) // opens what is opened once
	must(t, err)
	r.stop(p)
	failed, lost := 0, 0
	for n := range 24 {
		stderr, err := child.NewStderr(io.Discard)
		must(t, err)
		withoutDescriptors(t, n, func() {
			p, err := r.Start(t.Context(), &list[0], stderr.File())
			switch {
			case err == nil:
				checkEcho(t, p)
				r.stop(p)
			case strings.Contains(err.Error(), ErrDescriptors.Error()):
				lost++
				fallthrough
			default:
				failed++
			}
		})
		stderr.Close()
	}
	if failed == 0 || lost == 0 {
		t.Errorf("%d starts failed, %d because descriptors did not arrive", failed, lost)
	}
	p, err = r.start(list[0])
	must(t, err)
	checkEcho(t, p)
	must(t, r.close())
}
