package daemon

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/pdu"
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
		if err := os.WriteFile(c.Namespace.Path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		c.Serving = func() { close(serving) }
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
	c.send(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}})
	if got, want := show(c.do(&pdu.PMNSNames{Names: []string{"t.one"}})), "1 [240.0.1]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A daemon without a name space ends, and its agents with it.
func TestRunWithoutNames(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.stop()
	cfg := r.cfg
	cfg.Namespace.Path = filepath.Join(r.dir, "none")
	cfg.Listeners = new(Listeners)
	cfg.Serving = func() { t.Error("clients are served") }
	d, err := New(cfg)
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

// Named may be called while Run puts the names in use. The race detector would say if
// that were a data race.
func TestNamedDuringRun(t *testing.T) {
	r := newHarness(t, nil, nil)
	if err := r.Named(); err != nil {
		t.Error(err)
	}
	r.awaitStarts()
	if err := r.Named(); err != nil {
		t.Error(err)
	}
}
