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
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/launch/child"
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/pdu"
)

// A PMDA that dies, stalls or talks nonsense before it has said hello costs
// an error, no more.
func TestBadGreeting(t *testing.T) {
	checkGoroutines(t)
	tests := []struct{ name, script, err string }{
		{"dies", "exit 3", "unexpected EOF"},
		{"stalls", "exec sleep 10", "deadline exceeded"},
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
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
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

// Parts of a PMDA in shell.
const (
	// hello greets, and takes the greeting and one DESC_REQ.
	hello = `printf '\0\0\0\024\0\0\160\014\0\0\0\0\0\0\0\001\001\002\0\0'; head -c 36 >/dev/null; `
	// take takes one more.
	take = `head -c 16 >/dev/null; `
	// code is an ERROR PDU, PM_ERR_PMID.
	code = `\0\0\0\020\0\0\160\0\0\0\0\0\377\377\317\272`
	// ready and notReady say so.
	ready    = `\0\0\0\020\0\0\160\0\0\0\0\0\377\377\313\257`
	notReady = `\0\0\0\020\0\0\160\0\0\0\0\0\377\377\313\256`
)

func desc(c transport.Transport) error {
	return agenttest.Do(blocking{c}, agents.Origin{}, &pdu.DescReq{}, new(pdu.Desc))
}

// Half a reply comes in time. The drain takes it from there, with the replies
// to the requests behind it, and nothing gets out of step.
func TestLateHalfway(t *testing.T) {
	checkGoroutines(t)
	c, _ := startPMDA(t, wire.Options{Depth: 2}, "/bin/sh", "-c", hello+take+
		`printf '\0\0\0\020\0\0'; sleep 0.2; printf '\160\0\0\0\0\0\377\377\317\001`+code+`'
		head -c 16 >/dev/null; printf '`+code+`'; cat >/dev/null`)
	first := send(t, c, 50*time.Millisecond, false)
	second := send(t, c, 5*time.Second, false)
	for _, call := range []transport.Reply{first, second} {
		if _, err := call.Recv(nil); err != transport.ErrLate {
			t.Errorf("Recv: %v, want ErrLate", err)
		}
	}
	eventually(t, "well again", func() bool { return c.State() == wire.Ready })
	if err := desc(c); err != pdu.ErrnoPMID {
		t.Errorf("afterwards: %v, want %v", err, pdu.ErrnoPMID)
	}
}

// A PMDA that goes wrong in the place of a reply. The error sticks.
func TestBadReply(t *testing.T) {
	checkGoroutines(t)
	tests := []struct{ name, script, err string }{
		{"dies", "exit 0", "EOF"},
		{"dies in the middle", `printf '\0\0\0\040\0\0\160'`, "EOF"},
		{"lies", `printf '\0\0\0\007aaaabbbb'; cat >/dev/null`, "length does not fit"},
		{"wrong type", `printf '\0\0\0\020\0\0\160\004\0\0\0\0\0\0\0\0'; cat >/dev/null`, "DESC_REQ PDU in reply to DESC_REQ"},
		{"babbles", `printf '` + code + code + `'; cat >/dev/null`, "not asked for"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := startPMDA(t, wire.Options{}, "/bin/sh", "-c", hello+tt.script)
			first := desc(c)
			if tt.name == "babbles" && first == pdu.ErrnoPMID {
				first = desc(c) // its answer was good
			}
			for _, err := range []error{first, desc(c)} {
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

// The ways in and out of not being ready.
func TestNotReady(t *testing.T) {
	checkGoroutines(t)
	const good = `printf '` + code + `'; cat >/dev/null`
	tests := []struct {
		name   string
		opt    wire.Options
		script string // after hello
		first  error  // of the first request; nil: there is none
	}{
		{"from the start", wire.Options{NotReady: true}, ``, nil},
		{"as a reply", wire.Options{}, `printf '` + notReady + `'; sleep 0.1; printf '` + ready + `'; ` + take, transport.ErrNotReady},
		{"before a reply that comes too", wire.Options{}, `printf '` + notReady + code + `'; sleep 0.1; printf '` + ready + `'; ` + take, transport.ErrNotReady},
		{"behind a reply", wire.Options{}, `printf '` + code + notReady + `'; sleep 0.1; printf '` + ready + `'; ` + take, pdu.ErrnoPMID},
		{"ready without need", wire.Options{}, `printf '` + ready + code + ready + `'; ` + take, pdu.ErrnoPMID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			script := hello + tt.script + good
			if tt.opt.NotReady {
				script = strings.Replace(hello, "head -c 36", "head -c 20", 1) + "sleep 0.1; printf '" + ready + "'; " + take + good
			}
			c, _ := startPMDA(t, tt.opt, "/bin/sh", "-c", script)
			if tt.first != nil {
				if err := desc(c); err != tt.first {
					t.Errorf("first: %v, want %v", err, tt.first)
				}
			}
			if tt.opt.NotReady || tt.first == transport.ErrNotReady {
				if err := desc(c); err != transport.ErrNotReady {
					t.Errorf("meanwhile: %v, want %v", err, transport.ErrNotReady)
				}
			}
			eventually(t, "ready", func() bool { return c.State() == wire.Ready })
			if err := desc(c); err != pdu.ErrnoPMID {
				t.Errorf("afterwards: %v, want %v", err, pdu.ErrnoPMID)
			}
		})
	}

	t.Run("and then something else", func(t *testing.T) {
		c, _ := startPMDA(t, wire.Options{}, "/bin/sh", "-c", hello+`printf '`+notReady+code+code+`'; cat >/dev/null`)
		desc(c)
		<-c.Done()
		if err := c.Err(); !errors.Is(err, pdu.ErrnoIPC) {
			t.Errorf("ended by %v, want %v", err, pdu.ErrnoIPC)
		}
	})
}
