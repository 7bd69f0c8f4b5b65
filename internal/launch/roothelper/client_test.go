package roothelper

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf"
)

// When the root helper has ended, its agents have ended, too, and no agent can be
// started.
func TestLost(t *testing.T) {
	c, socket, err := pair()
	must(t, err)
	other, err := newConn(socket)
	must(t, err)
	client := newClient(c, helperStopTimeout)
	var list []*os.File // the agent's ends of the pipes
	go func() {
		m, files, _ := other.receive()
		closeAll(files)
		inR, inW, _ := os.Pipe()
		outR, outW, _ := os.Pipe()
		list = []*os.File{inR, outW}
		withFDs([]*os.File{outR, inW}, func(fds []int) error {
			return other.send(message{kind: msgStarted, id: m.id, pid: 4711}, fds...)
		})
		closeAll([]*os.File{outR, inW})
	}()
	a := pmcdconf.Agent{Domain: 1}
	p, err := client.Start(t.Context(), &a, os.Stderr)
	must(t, err)
	other.Close()
	<-client.Lost()
	if _, err := client.Start(t.Context(), &a, os.Stderr); !errors.Is(err, ErrLost) {
		t.Errorf("got %v", err)
	}
	<-p.Done()
	p.Stop(t.Context())
	if _, err := list[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("its standard input is not at its end: %v", err)
	}
	closeAll(list)
}

// A process whose Start was abandoned is stopped as soon as it has been started.
func TestStartAbandoned(t *testing.T) {
	c, socket, err := pair()
	must(t, err)
	other, err := newConn(socket)
	must(t, err)
	client := newClient(c, helperStopTimeout)
	defer other.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Start(ctx, &pmcdconf.Agent{Domain: 1}, os.Stderr); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	m, files, err := other.receive()
	must(t, err)
	closeAll(files)
	must(t, other.send(message{kind: msgStarted, id: m.id, pid: 4711}))
	if next, _, err := other.receive(); err != nil || next.kind != msgStop || next.id != m.id {
		t.Errorf("got %+v, %v", next, err)
	}
}

// HostName returns the host name in a container, and ContainerProcess its first process,
// or an error.
func TestContainers(t *testing.T) {
	r, _ := newHarness(t, "echo 1 pipe binary PROGRAM\n")
	if name, err := r.HostName(t.Context(), "box"); name != "host of box" || err != nil {
		t.Errorf("got %q, %v", name, err)
	}
	if pid, err := r.ContainerProcess(t.Context(), "box"); pid != 4711 || err != nil {
		t.Errorf("got process %d, %v", pid, err)
	}
	for container, want := range map[string]string{
		"nobody": "no such container", "": "1 to 255 bytes, not 0", strings.Repeat("x", 256): "1 to 255 bytes, not 256",
	} {
		if name, err := r.HostName(t.Context(), container); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("container name of %d bytes: got %q, %v, want %s", len(container), name, err, want)
		}
		if pid, err := r.ContainerProcess(t.Context(), container); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("container name of %d bytes: got process %d, %v, want %s", len(container), pid, err, want)
		}
	}
	must(t, r.close())
	if _, err := r.HostName(t.Context(), "box"); !errors.Is(err, ErrLost) {
		t.Errorf("after the end of the root helper: %v", err)
	}
}

// A root helper that hangs, and does not read, delays a request and Stop only until their
// contexts end. It stops the process when it reads again.
func TestHelperHangs(t *testing.T) {
	c, socket, err := pair()
	must(t, err)
	other, err := newConn(socket)
	must(t, err)
	defer other.Close()
	client := newClient(c, time.Millisecond)
	must(t, c.SetWriteBuffer(1)) // the kernel's least
	canceled, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	cancel(gone)
	finishes(t, "requests", func() {
		for range 20 { // more than the buffer has room for
			if _, err := client.HostName(canceled, "box"); !errors.Is(err, gone) {
				t.Errorf("HostName: %v", err)
			}
		}
	})
	p := &Process{client: client, id: 4711, done: make(chan struct{}), stopped: make(chan struct{})}
	finishes(t, "Stop", func() { p.Stop(canceled) })
	finishes(t, "the message that stops the process", func() {
		for {
			m, _, err := other.receive()
			if err != nil {
				t.Error(err)
				return
			}
			if m.kind == msgStop && m.id == p.id {
				return
			}
		}
	})
}

// finishes fails the test unless f returns.
func finishes(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(testutil.Hangs):
		t.Fatalf("no end of %s", what)
	}
}
