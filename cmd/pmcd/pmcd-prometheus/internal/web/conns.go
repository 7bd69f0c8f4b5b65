package web

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// logEvery is how often the log says that there are too many connections.
const logEvery = time.Minute

// conns limits the number of connections. One too many does not wait: a connection of the
// host with the most of them is closed, so that clients which keep connections busy, or send
// nothing, cannot keep others out.
type conns struct {
	most int
	logf func(format string, args ...any)

	mu     sync.Mutex // guards what is below, which each connection changes
	list   []*client  // oldest first
	logged time.Time
}

// A client is a connection.
type client struct {
	conn net.Conn
	host string
	busy bool // its request is being answered
}

type clientKey struct{}

// changed is the ConnState of an http.Server.
func (c *conns) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		host, _, err := net.SplitHostPort(conn.RemoteAddr().String())
		if err != nil {
			host = conn.RemoteAddr().String()
		}
		c.list = append(c.list, &client{conn: conn, host: host})
		if len(c.list) > c.most {
			c.closeOne()
		}
	case http.StateClosed, http.StateHijacked:
		c.remove(conn)
	}
}

func (c *conns) remove(conn net.Conn) {
	for i, k := range c.list {
		if k.conn == conn {
			c.list = append(c.list[:i], c.list[i+1:]...)
			return
		}
	}
}

// closeOne closes a connection of the host with the most of them: the oldest one without a
// request that is being answered or, if there is none, the last one.
func (c *conns) closeOne() {
	count := make(map[string]int)
	host := ""
	for _, k := range c.list {
		if count[k.host]++; count[k.host] > count[host] {
			host = k.host
		}
	}
	var closing *client
	for _, k := range c.list {
		if k.host == host {
			closing = k
			if !k.busy {
				break
			}
		}
	}
	if now := time.Now(); now.Sub(c.logged) >= logEvery {
		c.logged = now
		c.logf("more than %d connections, %d of them from %s: connections from there are closed", c.most, count[host], host)
	}
	c.remove(closing.conn)
	closing.conn.Close()
}

// context is the ConnContext of an http.Server.
func (c *conns) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, conn)
}

// handler notes which connections have a request that next answers.
func (c *conns) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(clientKey{}).(net.Conn)
		c.setBusy(conn, true)
		defer c.setBusy(conn, false)
		next.ServeHTTP(w, r)
	})
}

func (c *conns) setBusy(conn net.Conn, busy bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.list {
		if k.conn == conn {
			k.busy = busy
		}
	}
}
