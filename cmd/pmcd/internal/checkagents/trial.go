package checkagents

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/privsep"
	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
	"github.com/gopcp/pmcd/pmnsload"
)

// A checker tries agents, each on its own.
type checker struct {
	opt    *cli.Options
	dir    string // where the logs of agents are
	opener *open.Opener
	trust  *privsep.TrustCheck
}

// try starts the agent of t, asks it, and ends it. It writes to t only.
func (c *checker) try(ctx context.Context, t *trial) {
	if t.spec.Kind == pmcdconf.DSO && t.spec.Entry == pmcdconf.PMCDEntry {
		t.note = "not started: it is part of pmcd"
		return
	}
	if where := c.taken(&t.spec); where != "" {
		t.note = "not started: " + where + " is in use"
		return
	}
	if t.err = c.ask(ctx, t); errors.Is(t.err, syscall.EADDRINUSE) { // of a built-in agent
		t.note, t.err = "not started: its port is in use", nil
		return
	}
	t.output = append(t.output, endOf(filepath.Join(c.dir, t.spec.Name+".log"))...)
}

// taken returns what a socket agent would listen at, or pmdaroot, if it is in
// use: by the agent of a pmcd that runs. It is not connected to.
func (c *checker) taken(a *pmcdconf.Agent) string {
	path := ""
	switch {
	case a.Kind == pmcdconf.Socket && a.Family != access.Unix:
		network := "tcp4"
		if a.Family == access.IPv6 {
			network = "tcp6"
		}
		ln, err := net.Listen(network, fmt.Sprintf(":%d", a.Port))
		if errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Sprintf("port %d", a.Port)
		}
		if err == nil {
			ln.Close()
		}
	case a.Kind == pmcdconf.Socket:
		path = a.Address
	case a.Domain == pmcdconf.RootDomain: // it replaces the socket of another
		path = os.Getenv("PCP_VAR_DIR") + "/pmcd/root.socket"
	}
	if path != "" && ctl.Listening(path) {
		return path
	}
	return ""
}

// endOf returns the last lines of a file, if there is one.
func endOf(path string) []string {
	f, err := regular.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	f.Seek(-tailBytes, io.SeekEnd) // fails for a shorter one
	b := make([]byte, tailBytes)
	n, _ := io.ReadFull(f, b)
	return lastLines(string(b[:n]))
}

const (
	tailBytes = 2 << 10
	tailLines = 5
)

// lastLines returns the last lines of a text that have something in them.
func lastLines(text string) (lines []string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(len(lines)-tailLines, 0):]
}

// ask is try without what is before and after.
func (c *checker) ask(ctx context.Context, t *trial) error {
	began := time.Now()
	ready := make(chan struct{}, 1)
	starting, cancel := transport.StartContext(ctx, c.opt.HandshakeTimeout)
	defer cancel()
	o := c.opener
	if t.untrusted != nil {
		o = o.WithCredential(c.trust.Credential())
	}
	l, err := o.Open(starting, &t.spec, wire.Options{
		PID:      int32(os.Getpid()),
		NotReady: t.spec.NotReady,
		Counts:   new(pdu.Counts),
		OnState: func(s transport.State) {
			if s == transport.Ready {
				select {
				case ready <- struct{}{}:
				default:
				}
			}
		},
	})
	if err != nil {
		if e := (*transport.OpenError)(nil); errors.As(err, &e) {
			t.output = e.StderrTail
		}
		return fmt.Errorf("start: %w", err)
	}
	defer func() { t.output = end(&t.spec, l) }()
	defer context.AfterFunc(ctx, func() { l.Close() })()
	for t.spec.NotReady && l.State() == transport.NotReady {
		select {
		case <-ready:
		case <-l.Done():
			return fmt.Errorf("start: %w", l.Err())
		case <-starting.Done():
			return fmt.Errorf("start: it has not reported within %v (-q) that it is ready", c.opt.HandshakeTimeout)
		}
	}
	t.start = time.Since(began)
	if !t.metric.present {
		t.note = "started: the name space has no metric of its domain"
		return nil
	}
	return c.askMetric(t, l.Transport)
}

// askMetric asks for the descriptor and the value of the metric.
func (c *checker) askMetric(t *trial, tr transport.Transport) error {
	id, name := t.metric.entry.PMID, t.metric.name
	if t.metric.entry.Kind == pmnsload.Dynamic {
		var names pdu.PMNSNames
		var ids pdu.PMNSIDs
		if err := c.do(tr, &pdu.PMNSTraverse{Name: name}, &names); err != nil {
			return fmt.Errorf("names below %s: %w", name, err)
		}
		if len(names.Names) == 0 {
			t.note = "started: no metrics below " + name
			return nil
		}
		name = names.Names[0]
		if err := c.do(tr, &pdu.PMNSNames{Names: []string{name}}, &ids); err != nil {
			return fmt.Errorf("PMID of %s: %w", name, err)
		}
		if len(ids.PMIDs) != 1 {
			return fmt.Errorf("PMID of %s: the reply has %d PMIDs, not 1", name, len(ids.PMIDs))
		}
		id = ids.PMIDs[0]
	}
	began := time.Now()
	if err := c.do(tr, &pdu.DescReq{PMID: id}, new(pdu.Desc)); err != nil {
		return fmt.Errorf("descriptor of %s: %w", name, err)
	}
	t.desc = time.Since(began)
	began = time.Now()
	var r pdu.Result
	if err := c.do(tr, &pdu.Fetch{PMIDs: []pdu.PMID{id}}, &r); err != nil {
		return fmt.Errorf("fetch of %s: %w", name, err)
	}
	t.fetch = time.Since(began)
	switch {
	case len(r.Sets) != 1 || r.Sets[0].PMID != id:
		return fmt.Errorf("fetch of %s: the reply is for another metric", name)
	case r.Sets[0].Err < 0: // the agent is well, and this host has no such thing
		t.note = fmt.Sprintf("ok: %s: %v", name, r.Sets[0].Err)
	default:
		t.note = fmt.Sprintf("ok: %s has %d", name, len(r.Sets[0].Values))
		if len(r.Sets[0].Values) == 1 {
			t.note += " value"
		} else {
			t.note += " values"
		}
	}
	return nil
}

// do sends a request and decodes the reply; an ERROR is a pdu.Errno.
func (c *checker) do(tr transport.Transport, req, reply pdu.Message) error {
	b, err := pdu.Append(nil, 0, req)
	if err != nil {
		return err
	}
	call := transport.Call{Timeout: c.opt.Timeout, Req: b}
	if req.Type() == pdu.TypeFetch {
		call.Profile = transport.NewProfile(new(pdu.Profile)) // hides nothing
	}
	if b, err = transport.Do(tr, &call, nil); err != nil {
		return err
	}
	if _, typ, _ := pdu.Header(b); typ == pdu.TypeError {
		var e pdu.Error
		if _, err := pdu.ParseInto(b, &e); err != nil {
			return err
		}
		return e.Code
	}
	_, err = pdu.ParseInto(b, reply)
	return err
}

// endTime is how long an agent may take to end when its stream is closed.
const endTime = time.Second

// removeSocket removes what an agent has listened at, and nothing else that the
// configuration may name: this process may be root's.
func removeSocket(path string) {
	if fi, err := os.Lstat(path); err == nil && fi.Mode().Type() == fs.ModeSocket {
		safepath.Remove(path)
	}
}

// end ends an agent and all that it has started. It returns the end of
// its stderr.
func end(spec *pmcdconf.Agent, l *transport.Conn) []string {
	l.Close()
	if l.Process == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	l.Process.Stop(ctx)
	if spec.Kind == pmcdconf.Socket && spec.Family == access.Unix {
		removeSocket(spec.Address)
	}
	return l.Process.StderrTail()
}
