package sasl_test

import (
	"context"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/internal/testutil"
)

// A fakeHelper is a helper in this process.
type fakeHelper struct {
	conn *net.UnixConn
	done chan struct{}
}

func (p *fakeHelper) PID() int                   { return 0 }
func (p *fakeHelper) Done() <-chan struct{}      { return p.done }
func (p *fakeHelper) Status() syscall.WaitStatus { return 0 }
func (p *fakeHelper) Stop(context.Context) {
	p.conn.Close()
	<-p.done
}

// packets returns the connection of a socket, which it leaves open.
func packets(t *testing.T, f *os.File) *net.UnixConn {
	t.Helper()
	c, err := net.FileConn(f)
	if err != nil {
		t.Fatal(err)
	}
	return c.(*net.UnixConn)
}

// startFake returns the Start of a Host. A helper that does not probe plays serve, and then
// reads until the end.
func startFake(t *testing.T, serve func(c *net.UnixConn)) func(*os.File, bool) (sasl.Process, error) {
	return func(sock *os.File, probe bool) (sasl.Process, error) {
		p := &fakeHelper{packets(t, sock), make(chan struct{})}
		go func() {
			defer close(p.done)
			defer p.conn.Close()
			if probe {
				p.conn.Write([]byte("Rfake"))
				return
			}
			serve(p.conn)
			for b := make([]byte, 10000); ; {
				if n, err := p.conn.Read(b); err != nil || n == 0 {
					return
				}
			}
		}()
		return p, nil
	}
}

// loginSocket receives a login.
func loginSocket(c *net.UnixConn) *net.UnixConn {
	b, oob := make([]byte, 100), make([]byte, 100)
	n, oobn, _, _, err := c.ReadMsgUnix(b, oob)
	if err != nil || n != 9 || b[0] != 'L' {
		return nil
	}
	msgs, err := syscall.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(msgs) != 1 {
		return nil
	}
	fds, err := syscall.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return nil
	}
	f := os.NewFile(uintptr(fds[0]), "login")
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil
	}
	return conn.(*net.UnixConn)
}

// newFakeHost returns a Host with such helpers, and its log.
func newFakeHost(t *testing.T, timeout time.Duration, serve func(c *net.UnixConn)) (*sasl.Host, *logtest.Log) {
	testutil.CheckLeaks(t)
	log, lines := logtest.NewLog()
	h := sasl.New(sasl.Options{Start: startFake(t, serve), Log: diag.NewLogLimiter(log), Timeout: timeout})
	t.Cleanup(h.Close)
	return h, lines
}

// silent is the name of a case that ends by a timeout. The others have much time.
const silent = "says nothing"

// A helper that does not start as it should fails the logins.
func TestHostileStart(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(c *net.UnixConn)
		want  string
	}{
		{"ends at once", func(c *net.UnixConn) { c.Close() }, "has not started: "},
		{silent, func(c *net.UnixConn) {}, "i/o timeout"},
		{"unknown message", func(c *net.UnixConn) { c.Write([]byte("Zx")) }, "invalid message"},
		{"message that is too long", func(c *net.UnixConn) { c.Write([]byte("R" + strings.Repeat("x", 9999))) }, "invalid message"},
		{"texts without end", func(c *net.UnixConn) {
			for range 1000 {
				if _, err := c.Write([]byte("T\x00\x00\x00\x01text")); err != nil {
					return
				}
			}
		}, "too many messages"},
	} {
		t.Run(c.name, func(t *testing.T) {
			timeout := testutil.Hangs
			if c.name == silent {
				timeout = 100 * time.Millisecond
			}
			h, _ := newFakeHost(t, timeout, c.serve)
			if _, _, err := h.Begin(t.Context(), login("a")); code(err) != -21345 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// A helper that does not fork is replaced at the next login.
func TestHostileHelper(t *testing.T) {
	var mu sync.Mutex
	started := 0
	h, log := newFakeHost(t, time.Second, func(c *net.UnixConn) {
		mu.Lock()
		started++
		mu.Unlock()
		c.Write([]byte("Rfake"))
		if l := loginSocket(c); l != nil {
			defer l.Close()
			l.Read(make([]byte, 100))
			l.Read(make([]byte, 100)) // until pmcd has closed it
		}
	})
	for want := 1; want <= 3; want++ {
		if _, _, err := h.Begin(t.Context(), login("a")); code(err) != -21345 || !strings.Contains(err.Error(), "does not answer") {
			t.Fatalf("got %v", err)
		}
		mu.Lock()
		if started != want {
			t.Errorf("%d helpers were started, want %d", started, want)
		}
		mu.Unlock()
	}
	if n := len(log.With("the SASL helper does not answer; the next login starts another one")); n != 1 {
		t.Errorf("%d lines in the log, want 1", n)
	}
}

// What the process of a login sends fails this login at most.
func TestHostileChild(t *testing.T) {
	text := "T\x00\x00\x00\x01text"
	for _, c := range []struct {
		name    string
		answers [2]string // to the begin, and to the first message of the client
		want    string    // in the error
	}{
		{"ends before the list", [2]string{"-"}, "has ended"},
		{"challenge in place of the list", [2]string{"Cx"}, "invalid message"},
		{"empty list", [2]string{"M"}, "invalid message"},
		{"texts without end", [2]string{strings.Repeat(text+"|", 100)}, "invalid message"},
		{"ends in the middle", [2]string{"MPLAIN", "-"}, "has ended"},
		{silent, [2]string{"MPLAIN", ""}, "no answer from the SASL library"},
		{"two lists", [2]string{"MPLAIN", "MPLAIN"}, "invalid message"},
		{"no user", [2]string{"MPLAIN", "O"}, "invalid message"},
		{"user with a newline", [2]string{"MPLAIN", "Oa\nb"}, "invalid message"},
		{"user that is not UTF-8", [2]string{"MPLAIN", "Oa\xff"}, "invalid message"},
		{"message that is too long", [2]string{"MPLAIN", "C" + strings.Repeat("x", 9999)}, "invalid message"},
		{"success as an error", [2]string{"MPLAIN", "E\x00\x00\x00\x00"}, "invalid message"},
		{"descriptor", [2]string{"MPLAIN", "fd"}, "invalid message"},
		{"texts before the user", [2]string{text + "|MPLAIN", text + "|" + text + "|Oalice"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			timeout := testutil.Hangs
			if c.name == silent {
				timeout = 2 * time.Second
			}
			h, _ := newFakeHost(t, timeout, func(control *net.UnixConn) {
				control.Write([]byte("Rfake"))
				l := loginSocket(control)
				if l == nil {
					return
				}
				defer l.Close()
				b := make([]byte, 5000)
				for _, answer := range c.answers {
					if n, err := l.Read(b); err != nil || n == 0 {
						return
					}
					for packet := range strings.SplitSeq(answer, "|") {
						switch packet {
						case "-":
							return
						case "":
						case "fd":
							l.WriteMsgUnix([]byte("Oalice"), syscall.UnixRights(0), nil)
						default:
							l.Write([]byte(packet))
						}
					}
				}
				l.Read(b) // until pmcd has closed it
			})
			e, _, err := h.Begin(t.Context(), login("a"))
			user := ""
			if err == nil {
				_, _, user, err = e.Step(t.Context(), []byte(plain("alice", password)))
			}
			if c.want == "" {
				if user != "alice" || err != nil {
					t.Errorf("got user %q, %v", user, err)
				}
			} else if code(err) != -21345 || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if n := h.Logins(); n != 0 {
				t.Errorf("%d logins are under way", n)
			}
		})
	}
}
