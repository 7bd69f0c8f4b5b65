package roothelper

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pmcdconf"
)

// The end of the root helper is that of its agents, and none can be started.
func TestLost(t *testing.T) {
	c, socket, err := pair()
	must(t, err)
	other, err := newConn(socket)
	must(t, err)
	client := newClient(c)
	var list []*os.File // of the agent
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
	<-p.Done() // it has got SIGTERM
	p.Stop(t.Context())
	if _, err := list[0].Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("its input has not ended: %v", err)
	}
	closeAll(list)
}

// One who does not wait is not given what comes later, and it does not run on.
func TestStartAbandoned(t *testing.T) {
	c, socket, err := pair()
	must(t, err)
	other, err := newConn(socket)
	must(t, err)
	client := newClient(c)
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

// It is asked what the host is called in a container, and nothing else.
func TestHostName(t *testing.T) {
	r, _ := newHarness(t, "echo 1 pipe binary PROGRAM\n")
	if name, err := r.HostName(t.Context(), "box"); name != "host of box" || err != nil {
		t.Errorf("got %q, %v", name, err)
	}
	for container, want := range map[string]string{
		"nobody": "no such container", "": "nobody can be asked", strings.Repeat("x", 256): "nobody can be asked",
	} {
		if name, err := r.HostName(t.Context(), container); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("a name of %d bytes: %q, %v, want %s", len(container), name, err, want)
		}
	}
	must(t, r.close())
	if _, err := r.HostName(t.Context(), "box"); !errors.Is(err, ErrLost) {
		t.Errorf("without root helper: %v", err)
	}
}
