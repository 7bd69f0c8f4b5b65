package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// logEvery is how often the log says that there are too many connections.
const logEvery = time.Minute

// conns limits the number of connections. One too many does not wait: a connection of the
// host with the most of them is closed, so that clients which keep connections busy, or send
// nothing, cannot keep others out. The users of a host are behind one address, so what is closed
// is never the new connection, but the one that has been slow for the longest time.
type conns struct {
	most int
	log  *slog.Logger

	mu     sync.Mutex // guards what is below, which each connection changes
	list   []*client  // in the order in which they have entered their phases
	logged time.Time
}

// A client is a connection.
type client struct {
	conn  net.Conn
	host  string
	phase phase
}

// A phase is what a connection waits for. Those in the first phases are closed first.
type phase int

const (
	idle      phase = iota // for the client to send a request
	replying               // for the client to take the reply
	gathering              // for values
)

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
		if len(c.list) >= c.most {
			c.closeOne()
		}
		c.list = append(c.list, &client{conn: conn, host: host})
	case http.StateClosed, http.StateHijacked:
		c.remove(conn)
	}
}

// remove removes a connection from the list, and returns it if it was there.
func (c *conns) remove(conn net.Conn) *client {
	for i, k := range c.list {
		if k.conn == conn {
			c.list = append(c.list[:i], c.list[i+1:]...)
			return k
		}
	}
	return nil
}

// closeOne closes a connection of the host with the most of them: of those in the first phase
// that it has any in, the one that entered it first.
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
		if k.host == host && (closing == nil || k.phase < closing.phase) {
			closing = k
		}
	}
	if now := time.Now(); now.Sub(c.logged) >= logEvery {
		c.logged = now
		c.log.Warn("more than {limit} connections, {count} of them from {host}: the slowest ones from there are closed",
			"limit", c.most, "count", count[host], "host", host)
	}
	c.remove(closing.conn)
	closing.conn.Close()
}

// context is the ConnContext of an http.Server.
func (c *conns) context(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, clientKey{}, conn)
}

// handler notes in which phases the connections are whose requests next answers.
func (c *conns) handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _ := r.Context().Value(clientKey{}).(net.Conn)
		c.enter(conn, gathering)
		defer c.enter(conn, idle)
		next.ServeHTTP(&replyWriter{w, func() { c.enter(conn, replying) }}, r)
	})
}

// enter notes that a connection has entered a phase.
func (c *conns) enter(conn net.Conn, p phase) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.remove(conn); k != nil {
		k.phase = p
		c.list = append(c.list, k)
	}
}

// A replyWriter calls begin before it writes the body of a reply, which it does once.
type replyWriter struct {
	http.ResponseWriter
	begin func()
}

func (w *replyWriter) Write(b []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(b)
}
