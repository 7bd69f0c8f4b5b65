package web

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// A listener has connections that are pipes in memory, so that tests need not wait for time
// limits.
type listener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return addr("") }

type addr string

func (addr) Network() string  { return "tcp" }
func (a addr) String() string { return string(a) }

// from is a connection from an address.
type from struct {
	net.Conn
	host string
}

func (c from) RemoteAddr() net.Addr { return addr(c.host + ":1000") }

// A harness is a server in a bubble of package synctest.
type harness struct {
	t    *testing.T
	s    *Server
	src  *source
	l    *listener
	stop func()
}

func inBubble(t *testing.T, f func(*harness)) {
	synctest.Test(t, func(t *testing.T) {
		r := &harness{t: t, src: &source{}, l: &listener{conns: make(chan net.Conn), closed: make(chan struct{})}}
		r.s, _ = newServer(r.src, false)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.s.Serve(ctx, r.l) }()
		r.stop = func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		f(r)
		r.stop()
	})
}

// dial connects from a host, and sends a text.
func (r *harness) dial(host, text string) net.Conn {
	ours, theirs := net.Pipe()
	r.l.conns <- from{theirs, host}
	if text != "" {
		// Serve has taken the connection when this can be written, unless it was closed.
		ours.Write([]byte(text))
	}
	synctest.Wait()
	return ours
}

const request = "GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n"

// reply reads a reply.
func reply(c net.Conn) (code int, body string, err error) {
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// closedAfter returns how long it takes until the server closes c.
func closedAfter(c net.Conn) (time.Duration, string) {
	start := time.Now()
	text, _ := io.ReadAll(c)
	return time.Since(start), string(text)
}

// Clients that send nothing, too little or too much do not stay.
func TestHostileClients(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		within     time.Duration
		reply      string
	}{
		{"sends nothing", "", headerTimeout, ""},
		{"stops in a line", "GET /metr", headerTimeout, "HTTP/1.1 400"},
		{"stops in a header", "GET /metrics HTTP/1.1\r\nHost: h\r\nX: ", headerTimeout, ""},
		{"stops in a body", "GET /healthz HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000000\r\n\r\nx", headerTimeout, "HTTP/1.1 200 OK"},
		{"sends garbage", "\x16\x03\x01\x00\xff\r\n\r\n", time.Second, "HTTP/1.1 400"},
		{"is idle after a request", "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n", idleTimeout, "HTTP/1.1 200 OK"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, func(r *harness) {
				c := r.dial("10.0.0.1", tt.text)
				d, text := closedAfter(c)
				if d > tt.within+time.Second || !strings.HasPrefix(text, tt.reply) || tt.reply == "" && text != "" {
					t.Errorf("closed after %v: %q", d, text)
				}
			})
		})
	}
}

func TestLongHeader(t *testing.T) {
	inBubble(t, func(r *harness) {
		c := r.dial("10.0.0.1", "GET /metrics HTTP/1.1\r\nHost: h\r\n")
		go func() {
			line := fmt.Appendf(nil, "X: %s\r\n", strings.Repeat("x", 1000))
			for range 1 << 10 {
				if _, err := c.Write(line); err != nil {
					return
				}
			}
			t.Error("a header of 1 MB was read")
		}()
		if code, _, err := reply(c); code != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d, %v", code, err)
		}
		c.Close()
	})
}

// A client that does not read its reply is disconnected.
func TestSlowReader(t *testing.T) {
	inBubble(t, func(r *harness) {
		c := r.dial("10.0.0.1", request)
		time.Sleep(8*time.Second + writeTimeout + time.Second)
		synctest.Wait()
		if _, _, err := reply(c); err == nil {
			t.Error("the reply was still there")
		}
	})
}

// Connections of one host do not keep another one out, whatever they do.
func TestManyConnections(t *testing.T) {
	for name, text := range map[string]string{
		"idle": "", "incomplete": "GET /metr", "unread": request, "kept": "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *harness) {
				kept := r.dial("10.0.0.1", request)
				if code, _, err := reply(kept); code != 200 {
					t.Fatalf("%d, %v", code, err)
				}
				var attack []net.Conn
				for range 3 * maxConns {
					attack = append(attack, r.dial("10.6.6.6", text))
				}
				r.s.conns.mu.Lock()
				if n := len(r.s.conns.list); n > maxConns {
					t.Errorf("%d connections", n)
				}
				r.s.conns.mu.Unlock()
				// The connection of before is still there, and there is room for a new one.
				c := r.dial("10.0.0.2", request)
				if code, _, err := reply(c); code != 200 {
					t.Errorf("new: %d, %v", code, err)
				}
				if _, err := kept.Write([]byte(request)); err != nil {
					t.Errorf("kept: %v", err)
				} else if code, _, err := reply(kept); code != 200 {
					t.Errorf("kept: %d, %v", code, err)
				}
				open := 0
				for _, c := range attack {
					c.SetReadDeadline(time.Now().Add(time.Millisecond))
					if _, err := io.ReadAll(c); err == nil || errors.Is(err, io.ErrClosedPipe) {
						continue
					}
					open++
				}
				if open == 0 || open > maxConns {
					t.Errorf("%d of %d connections are open", open, len(attack))
				}
				for _, c := range append(attack, kept, c) {
					c.Close()
				}
			})
		})
	}
}

// Connections of one user do not keep another user of the same host out, if they are slow.
func TestManyConnectionsOfHost(t *testing.T) {
	const host = "127.0.0.1"
	long := counter(strings.Repeat("long_name_", 1000), 1)
	for name, text := range map[string]string{
		"idle": "", "incomplete": "GET /metr", "unread": request, "kept": "GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(r *harness) {
				r.src.more = []*dto.MetricFamily{long}
				var open []net.Conn
				dial := func(text string) net.Conn {
					c := r.dial(host, text)
					open = append(open, c)
					return c
				}
				scrape := func(what string, c net.Conn) {
					t.Helper()
					if code, body, err := reply(c); code != 200 || !strings.Contains(body, "long_name") {
						t.Errorf("%s: %d, %d bytes, %v", what, code, len(body), err)
					}
				}
				for range maxConns {
					dial(text)
				}
				var c net.Conn
				for i := range 2 * maxConns {
					c = dial(request)
					scrape(fmt.Sprintf("scrape %d", i), c)
				}
				if _, err := c.Write([]byte(request)); err != nil {
					t.Errorf("kept: %v", err)
				}
				scrape("kept", c)

				// Others come in the time that the scrape takes.
				gathers, others := make(chan bool), make(chan bool)
				r.src.wait = func(context.Context) error {
					gathers <- true
					<-others
					return nil
				}
				c = dial(request)
				<-gathers
				r.src.wait = nil
				for range 2 * maxConns {
					dial(strings.TrimSuffix(text, "\n"))
				}
				close(others)
				scrape("among new connections", c)
				for _, c := range open {
					c.Close()
				}
			})
		})
	}
}

// The server ends although a client waits for values and another one is idle.
func TestStop(t *testing.T) {
	inBubble(t, func(r *harness) {
		r.src.wait = func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		r.dial("10.0.0.1", "")
		r.dial("10.0.0.1", request)
		start := time.Now()
		stop := r.stop
		r.stop = func() {}
		stop()
		if d := time.Since(start); d != stopTimeout { // of the bubble's clock
			t.Errorf("it took %v", d)
		}
	})
}
