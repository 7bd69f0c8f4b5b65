package wire_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// If a PMDA exits, stalls or sends something else instead of CREDS, Dial fails.
func TestBadGreeting(t *testing.T) {
	testutil.CheckGoroutines(t)
	tests := []struct{ name, script, err string }{
		{"dies", "exit 3", "unexpected EOF"},
		{"stalls", "exec sleep 3600", "deadline exceeded"},
		{"babbles", "echo hello world, this is no PDU", "unexpected EOF"},
		{"lies", `printf '\377\377\377\377aaaabbbb'; cat`, "length does not fit"},
		{"wrong type", `printf '\0\0\0\020\0\0\160\004\0\0\0\0\0\0\0\0'; cat`, "unexpected PDU type"},
		{"no version", `printf '\0\0\0\024\0\0\160\014\0\0\0\0\0\0\0\001\001\000\0\0'; cat`, "no protocol version"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := child.Start(child.Spec{Argv: []string{"/bin/sh", "-c", tt.script}, Pipes: true, Stderr: os.Stderr})
			if err != nil {
				t.Fatal(err)
			}
			timeout := time.Minute
			if tt.name == "stalls" {
				timeout = 200 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err = wire.Dial(ctx, p.Pipes, wire.Options{})
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("got %v, want %q", err, tt.err)
			}
			if tt.name == "stalls" && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v does not wrap context.DeadlineExceeded", err)
			}
			p.Stop(ctx)
		})
	}
}

// Parts of a PMDA that is a shell script.
const (
	// shellHandshake sends CREDS, and reads pmcd's CREDS and one DESC_REQ.
	shellHandshake = `printf '\0\0\0\024\0\0\160\014\0\0\0\0\0\0\0\001\001\002\0\0'; head -c 36 >/dev/null; `
	// shellReadRequest reads one more DESC_REQ.
	shellReadRequest = `head -c 16 >/dev/null; `
	// shellGate waits for the file that startGatedPMDA names.
	shellGate = `until [ -e "$1" ]; do sleep 0.01; done; `
	// errorPDU is an ERROR PDU with PM_ERR_PMID.
	errorPDU = `\0\0\0\020\0\0\160\0\0\0\0\0\377\377\317\272`
	// readyPDU and notReadyPDU have PM_ERR_PMDAREADY and PM_ERR_PMDANOTREADY.
	readyPDU    = `\0\0\0\020\0\0\160\0\0\0\0\0\377\377\313\257`
	notReadyPDU = `\0\0\0\020\0\0\160\0\0\0\0\0\377\377\313\256`
)

func doDescReq(c transport.Transport) error {
	return transporttest.Do(mayBlockTransport{c}, agents.Origin{}, &pdu.DescReq{}, new(pdu.Desc))
}

// Half a reply comes in time. The background goroutine reads the rest, and the
// replies to the requests behind it, and later requests get their own replies.
func TestLatePartialReply(t *testing.T) {
	testutil.CheckGoroutines(t)
	c, open := startGatedPMDA(t, wire.Options{Depth: 2}, shellHandshake+shellReadRequest+
		`printf '\0\0\0\020\0\0'; `+shellGate+`printf '\160\0\0\0\0\0\377\377\317\001`+errorPDU+`'
		head -c 16 >/dev/null; printf '`+errorPDU+`'; cat >/dev/null`)
	first := sendDescReqTimeout(t, c, 50*time.Millisecond, false)
	second := sendDescReqTimeout(t, c, 5*time.Second, false)
	for _, call := range []transport.Reply{first, second} {
		if _, err := call.Recv(nil); err != transport.ErrLate {
			t.Errorf("Recv: %v, want ErrLate", err)
		}
	}
	open()
	testutil.Eventually(t, "ready again", func() bool { return c.State() == transport.Ready })
	if err := doDescReq(c); err != pdu.ErrnoPMID {
		t.Errorf("afterwards: %v, want %v", err, pdu.ErrnoPMID)
	}
}

// If a PMDA exits or sends something else instead of a reply, this and all later
// calls fail.
func TestBadReply(t *testing.T) {
	testutil.CheckGoroutines(t)
	tests := []struct{ name, script, err string }{
		{"dies", "exit 0", "EOF"},
		{"dies in the middle", `printf '\0\0\0\040\0\0\160'`, "EOF"},
		{"lies", `printf '\0\0\0\007aaaabbbb'; cat >/dev/null`, "length does not fit"},
		{"wrong type", `printf '\0\0\0\020\0\0\160\004\0\0\0\0\0\0\0\0'; cat >/dev/null`, "DESC_REQ PDU in reply to DESC_REQ"},
		{"babbles", `printf '` + errorPDU + errorPDU + `'; cat >/dev/null`, "unsolicited"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := startPMDA(t, wire.Options{}, "/bin/sh", "-c", shellHandshake+tt.script)
			first := doDescReq(c)
			if tt.name == "babbles" && first == pdu.ErrnoPMID {
				first = doDescReq(c) // the first of the two replies was valid
			}
			for _, err := range []error{first, doDescReq(c)} {
				if err == nil || !strings.Contains(err.Error(), tt.err) && !errors.Is(err, syscall.EPIPE) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
			}
			<-c.Done()
			if c.Err() == nil {
				t.Error("no reason")
			}
		})
	}
}

// An agent can become not ready at any time, and is used again when it is ready.
func TestNotReady(t *testing.T) {
	testutil.CheckGoroutines(t)
	const good = `printf '` + errorPDU + `'; cat >/dev/null`
	tests := []struct {
		name   string
		opt    wire.Options
		script string // after shellHandshake
		first  error  // of the first request; nil: there is none
	}{
		{"from the start", wire.Options{NotReady: true}, shellGate + `printf '` + readyPDU + `'; ` + shellReadRequest, nil},
		{"as a reply", wire.Options{}, `printf '` + notReadyPDU + `'; ` + shellGate + `printf '` + readyPDU + `'; ` + shellReadRequest, transport.ErrNotReady},
		{"before a reply that comes too", wire.Options{}, `printf '` + notReadyPDU + errorPDU + `'; ` + shellGate + `printf '` + readyPDU + `'; ` + shellReadRequest, transport.ErrNotReady},
		{"behind a reply", wire.Options{}, `printf '` + errorPDU + notReadyPDU + `'; ` + shellGate + `printf '` + readyPDU + `'; ` + shellReadRequest, pdu.ErrnoPMID},
		{"ready without need", wire.Options{}, `printf '` + readyPDU + errorPDU + readyPDU + `'; ` + shellReadRequest, pdu.ErrnoPMID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := shellHandshake + tt.script + good
			if tt.first == nil {
				script = strings.Replace(script, "head -c 36", "head -c 20", 1)
			}
			c, open := startGatedPMDA(t, tt.opt, script)
			if tt.first != nil {
				if err := doDescReq(c); err != tt.first {
					t.Errorf("first: %v, want %v", err, tt.first)
				}
			}
			if strings.Contains(script, shellGate) {
				testutil.Eventually(t, "not ready", func() bool { return c.State() == transport.NotReady })
				if err := doDescReq(c); err != transport.ErrNotReady {
					t.Errorf("meanwhile: %v, want %v", err, transport.ErrNotReady)
				}
				open()
			}
			testutil.Eventually(t, "ready", func() bool { return c.State() == transport.Ready })
			if err := doDescReq(c); err != pdu.ErrnoPMID {
				t.Errorf("afterwards: %v, want %v", err, pdu.ErrnoPMID)
			}
		})
	}

	t.Run("unexpected PDU while not ready", func(t *testing.T) {
		c, _ := startPMDA(t, wire.Options{}, "/bin/sh", "-c", shellHandshake+`printf '`+notReadyPDU+errorPDU+errorPDU+`'; cat >/dev/null`)
		doDescReq(c)
		<-c.Done()
		if err := c.Err(); !errors.Is(err, pdu.ErrnoIPC) {
			t.Errorf("ended by %v, want %v", err, pdu.ErrnoIPC)
		}
	})
}
