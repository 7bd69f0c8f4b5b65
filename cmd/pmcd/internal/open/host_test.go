package open

import (
	"bytes"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A syncBuffer is a buffer that several goroutines use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// oddDSO builds a shared object that says on its standard error output when it is loaded and
// when its entry function is called.
func oddDSO(t *testing.T) string {
	t.Helper()
	testutil.NeedPeer(t, "/usr/include/pcp/pmda.h")
	path := filepath.Join(t.TempDir(), "pmda_odd.so")
	cmd := exec.Command("cc", "-shared", "-fPIC", "-o", path, "../../../../agents/launch/dsohost/testdata/odd.c", "-lpcp_pmda", "-lpcp")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func newOpener() (*Opener, *syncBuffer) {
	stderr := new(syncBuffer)
	return New(Config{Stderr: stderr, Builtin: Builtin, Log: slog.New(slog.DiscardHandler)}), stderr
}

func (o *Opener) openT(t *testing.T, spec *pmcdconf.Agent) (*transport.Conn, error) {
	t.Helper()
	ctx, cancel := transport.StartContext(t.Context(), testutil.Hangs)
	defer cancel()
	return o.Open(ctx, spec, wire.Options{Counts: new(pdu.Counts)})
}

// A preloaded host has loaded its object and has not called the entry function. Open uses it,
// once; what it has not used is ended by discard.
func TestPeerPreload(t *testing.T) {
	path := oddDSO(t) // before CheckLeaks: cc is a process
	testutil.CheckLeaks(t)
	o, stderr := newOpener()
	spec := &pmcdconf.Agent{Name: "odd", Domain: 250, Kind: pmcdconf.DSO, Entry: "noisy_init", Path: path}
	preload := func() (h *host, discard func()) {
		t.Helper()
		discard = o.Preload(t.Context(), spec)
		found, ok := o.preloaded.Load(spec)
		if !ok {
			t.Fatal("there is no preloaded host")
		}
		return found.(*host), discard
	}

	h, discard := preload()
	testutil.Eventually(t, "it is loaded", func() bool { return strings.Contains(stderr.String(), "odd: loaded\n") })
	if text := stderr.String(); strings.Contains(text, "init") {
		t.Errorf("before Open: %q", text)
	}
	c, err := o.openT(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	discard()
	if got := c.Process.PID(); got != h.PID() {
		t.Errorf("the agent has process %d, and %d was preloaded", got, h.PID())
	}
	again, err := o.openT(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	if again.Process.PID() == h.PID() {
		t.Error("a second agent has the same process")
	}
	for _, c := range []*transport.Conn{c, again} {
		c.Close()
		c.Process.Stop(t.Context())
	}

	h, discard = preload()
	discard()
	select {
	case <-h.Done():
	default:
		t.Error("a host still runs after it was discarded")
	}
	discard() // has no effect
}

// An agent whose host fails while it waits, or has failed to load the object, has the same
// error as without Preload.
func TestPeerPreloadFails(t *testing.T) {
	path := oddDSO(t)
	broken := filepath.Join(t.TempDir(), "broken.so")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// The linker does not find it. The name is as long as before.
	b = bytes.ReplaceAll(b, []byte("libpcp_pmda.so."), []byte("libpcp_none.so."))
	if err := os.WriteFile(broken, b, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, path, entry string
		kill              bool
		want              string
	}{
		{"cannot be loaded", broken, "noisy_init", false, "cannot load the DSO: libpcp_none.so."},
		{"has no entry", path, "none_init", false, path + " has no function none_init (the process has exited with status 1)"},
		{"fails", path, "fails_init", false, "fails_init of " + path + " failed: No permission to perform requested operation (the process has exited with status 1)"},
		{"crashes", path, "crashes_init", false, "the DSO host ended while the DSO was loaded or initialised: "},
		{"is killed", path, "noisy_init", true, "the DSO host ended while the DSO was loaded or initialised: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testutil.CheckLeaks(t)
			o, _ := newOpener()
			spec := &pmcdconf.Agent{Name: "odd", Domain: 250, Kind: pmcdconf.DSO, Entry: tt.entry, Path: tt.path}
			discard := o.Preload(t.Context(), spec)
			if tt.kill {
				h, ok := o.preloaded.Load(spec)
				if !ok {
					t.Fatal("there is no preloaded host")
				}
				syscall.Kill(h.(*host).PID(), syscall.SIGKILL)
				<-h.(*host).Done()
			}
			_, err := o.openT(t, spec)
			discard()
			if err == nil || !strings.Contains(transport.Reason(err), tt.want) {
				t.Errorf("got %q, want %q", transport.Reason(err), tt.want)
			}
			if tt.kill {
				return
			}
			_, without := o.openT(t, spec)
			if transport.Reason(without) != transport.Reason(err) {
				t.Errorf("with Preload %q, without %q", transport.Reason(err), transport.Reason(without))
			}
		})
	}
}

// Only the host of a C shared object is preloaded.
func TestPreloadOthers(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "pmda_text.so")
	if err := os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []pmcdconf.Agent{
		{Name: "pipe", Kind: pmcdconf.Pipe, Argv: []string{"/bin/cat"}},
		{Name: "socket", Kind: pmcdconf.Socket, Argv: []string{"/bin/cat"}},
		{Name: "built in", Kind: pmcdconf.DSO, Entry: "linux_init", Path: "/nonexistent/pmda_linux.so"},
		{Name: "built in, without a path", Kind: pmcdconf.DSO, Entry: "linux_init"},
		{Name: "not an object", Kind: pmcdconf.DSO, Entry: "text_init", Path: text},
	} {
		t.Run(spec.Name, func(t *testing.T) {
			o, _ := newOpener()
			defer o.Preload(t.Context(), &spec)()
			if list := peer.Descendants(os.Getpid()); len(list) > 0 {
				t.Errorf("it has started %v", list)
			}
		})
	}
}
