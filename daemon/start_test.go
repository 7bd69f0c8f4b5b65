package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// Agents are started while the name space is read, and clients served when it
// is there.
func TestServesWhenNamed(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	serving := make(chan struct{})
	r := newHarness(t, func(c *Config) {
		text := testNames + "\n#shell 'cat " + fifo + "'\n"
		if err := os.WriteFile(c.Files.Namespace.Path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c.Manager.Serving = func() { close(serving) }
	}, nil)
	r.awaitStarts()
	c := r.connect("tcp", r.tcp)
	if closed(serving) {
		t.Error("clients are served without names")
	}
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for cat
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	<-serving
	c.recv()
	c.send(pdutest.Creds(0))
	if got, want := show(c.do(&pdu.PMNSNames{Names: []string{"t.one"}})), "1 [240.0.1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A daemon without a name space ends, and its agents with it.
func TestRunWithoutNames(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.stop()
	cfg := r.cfg
	cfg.Files.Namespace.Path = filepath.Join(r.dir, "none")
	cfg.Listeners = new(Listeners)
	cfg.Manager.Serving = func() { t.Error("clients are served") }
	cfg.Security.SASLHelper = func(_ *os.File, probe bool) (*child.Process, error) {
		if !probe { // a probe may begin while names are loaded
			t.Error("a SASL helper is started")
		}
		return nil, errors.ErrUnsupported
	}
	d, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Run(t.Context()); err == nil {
		t.Error("Run: no error")
	}
	for _, a := range d.routes.Load().Agents() {
		if a.Conn() != nil {
			t.Errorf("agent %q is there", a.Name())
		}
	}
}

// New ends with its context while the read of pmcd.conf waits for a name server.
func TestReadOfConfEnds(t *testing.T) {
	r := newHarness(t, nil, nil) // it counts goroutines
	r.stop()
	r.write("pmcd.conf", testAgents+"allow far : all;\n")
	h := newHanging()
	cfg := r.cfg
	cfg.hooks.resolver = h
	cfg.Listeners = new(Listeners)
	cfg.Files.Watch = true
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := New(ctx, cfg)
		ended <- err
	}()
	<-h.asked
	defer close(h.open) // ends the read, which New does not wait for
	select {
	case err := <-ended:
		t.Fatalf("New has not waited for pmcd.conf: %v", err)
	default:
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("New: got %v, want %v", err, context.Canceled)
	}
}

// New leaves no goroutine when it fails. Run ends the read of the name space when its
// context ends, and waits for it.
func TestReadOfNamesEnds(t *testing.T) {
	r := newHarness(t, nil, nil) // it counts goroutines
	r.stop()
	fifo := filepath.Join(r.dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r.write("pmns", testNames+"\n#shell 'cat "+fifo+"'\n")
	r.write("bad.conf", "t 240 pipe\n")
	cfg := r.cfg
	cfg.Listeners = new(Listeners)
	cfg.Files.Conf = filepath.Join(r.dir, "bad.conf")
	if _, err := New(t.Context(), cfg); err == nil {
		t.Error("New: no error")
	}
	cfg.Files.Conf = r.cfg.Files.Conf
	d, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- d.Run(ctx) }()
	f, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for cat
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Run: %v", err)
	}
	if _, err := f.Write([]byte("\n")); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("cat is still there after Run: write: %v", err)
	}
}

// The caller of LoadNames has the names, and an error before Run if there are none.
func TestLoadNames(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.stop()
	cfg := r.cfg
	cfg.Listeners = new(Listeners)
	d, err := New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.reloader.LoadNames(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(d.routes.Load().Tree().Names(pdu.NewPMID(240, 0, 1))) == 0 {
		t.Error("no name t.one")
	}
	if err := os.Remove(cfg.Files.Namespace.Path); err != nil {
		t.Fatal(err)
	}
	if err := d.reloader.LoadNames(t.Context()); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if d, err = New(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if err := d.reloader.LoadNames(t.Context()); err == nil {
		t.Error("without a file: no error")
	}
}
