// Package pmimport is the agent for tools that write archives of PCP from other data, such as
// sadc and atop (domain 43). It serves the metrics of the pmdapmimport of PCP 7.2, pmimport,
// with the same PMIDs, instances and values. An instance is a tool.
//
// Comments that start with "C differs" say what pmdapmimport does otherwise.
package pmimport

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/ids"
	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/pidfile"
	"github.com/gopcp/pmcd/agents/builtin/internal/zone"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Options configure an agent. The zero value is for this host.
type Options struct {
	// Dir has the files of the tools; "" is, as with pmdapmimport, the directory that the
	// environment variable PCP_IMPORTRUN_DIR names, or /run/pmimport.
	Dir string

	// CacheDir is the directory of the file with the ids of instances, see
	// [cache.Options].
	CacheDir string

	// LocalTime is the time zone of the host; "" is /etc/localtime. ZoneInfoDir has all
	// time zones; "" is /usr/share/zoneinfo.
	LocalTime, ZoneInfoDir string

	// Log gets warnings about files; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host.
func New(domain int) (agents.Agent, error) { return Open(domain, Options{}) }

// Open returns an agent with these options.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent() }

//go:embed help.txt
var help string

// A host finds the tools.
type host struct {
	Options
	domain      int
	tools       *ids.Saved // with a *tool each
	zone        func() *zone.Zone
	buf         []byte
	lastWarning string
}

func newHost(domain int, o Options) *host {
	o.Dir = cmp.Or(o.Dir, os.Getenv("PCP_IMPORTRUN_DIR"), "/run/pmimport")
	o.LocalTime, o.ZoneInfoDir = cmp.Or(o.LocalTime, "/etc/localtime"), cmp.Or(o.ZoneInfoDir, "/usr/share/zoneinfo")
	o.Log = cmp.Or(o.Log, slog.Default()).With("agent", "pmimport", "domain", domain)
	return &host{
		Options: o, domain: domain, tools: ids.New(pdu.NewInDom(domain, 0), o.CacheDir, o.Log), buf: make([]byte, maxFile+1),
		zone: sync.OnceValue(func() *zone.Zone { return zone.New(o.LocalTime, o.ZoneInfoDir) }),
	}
}

func (h *host) agent() (agents.Agent, error) {
	names := &pmda.Subtree{Prefix: "pmimport"}
	if err := names.Set(h.metrics()); err != nil {
		return nil, err
	}
	return pmda.New(pmda.Config{Name: "pmimport", Domain: h.domain, Subtrees: []*pmda.Subtree{names}, Help: help, Log: h.Log})
}

const (
	maxTools = 8    // as in C
	maxNames = 1000 // that are read of the directory
	maxFile  = 16 << 10
)

// read finds the tools whose processes live. Of more than maxTools it takes the first by name.
//
// C differs: it takes the first of the directory.
func (h *host) read(_ context.Context, r *pmda.Request) error {
	names, _ := pidfile.Names(h.Dir, maxNames) // without tools there is no directory
	slices.Sort(names)
	h.tools.Each(func(_ int32, _ string, data any) bool {
		*data.(*tool) = tool{} // an instance that is hidden keeps its data
		return true
	})
	h.tools.Begin()
	warning, n := "", 0
	for _, name := range names {
		if err := r.Err(); err != nil {
			return err
		}
		if name[0] == '.' {
			continue
		}
		// C differs: it follows links, and waits for the writer of a FIFO.
		path := filepath.Join(h.Dir, name)
		b, err := pidfile.Read(path, h.buf)
		if errors.Is(err, fs.ErrNotExist) {
			continue // its tool has ended
		}
		if err != nil {
			warning = cmp.Or(warning, err.Error())
			continue
		}
		t := parse(b)
		if t.pid != 0 && !pidfile.Alive(t.pid) {
			continue // its file has stayed behind
		}
		if n++; n > maxTools {
			warning = cmp.Or(warning, fmt.Sprintf("%s: there are more than %d tools", path, maxTools))
			break
		}
		if _, err := h.tools.Add(name, t); err != nil {
			warning = cmp.Or(warning, fmt.Sprintf("%s: %v", path, err))
		}
	}
	h.tools.End()
	if warning != "" && warning != h.lastWarning {
		h.Log.Warn("{agent}: tools are left out: {error}", "error", warning)
	}
	h.lastWarning = warning
	return nil
}

// A tool is what the file of a tool says (pmiSetImportProgram(3)). Each line may be missing:
//
//	pid=1234
//	version=12.8.0
//	args=CPU,DISK
//	archive=/var/log/sa/sa01
type tool struct {
	pid                    int32 // 0 for a tool that is not always running
	version, args, archive string
}

// parse parses a file. Of several lines for one thing, the last counts.
//
// C differs: it cuts off version after 31 bytes, archive after 255, and parses what follows
// the first 511 bytes of a line as the next line. When it first reads a file with several
// pids, the processes of all must exist.
func parse(b []byte) *tool {
	t := new(tool)
	for line := range bytes.Lines(b) {
		if i := bytes.IndexAny(line, "\r\n\x00"); i >= 0 {
			line = line[:i]
		}
		name, value, found := bytes.Cut(line, []byte("="))
		switch {
		case !found:
		case string(name) == "pid":
			// As strtol(3), ParseInt accepts a sign and leading zeros.
			if n, err := strconv.ParseInt(strings.TrimLeft(string(value), " \t\v\f"), 10, 32); err == nil && n > 0 {
				t.pid = int32(n)
			}
		case string(name) == "version":
			t.version = string(value)
		case string(name) == "args":
			t.args = string(value)
		case string(name) == "archive":
			t.archive = string(value)
		}
	}
	return t
}

// A row is a metric of a table.
type row metrics.Row

func (h *host) metrics() []pmda.Metric {
	text := func(f func() string) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error {
			v.SetString(f())
			return nil
		}
	}
	of := func(f func(t *tool) string) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, t *tool) { v.SetString(f(t)) })
	}
	const str, discrete = pdu.MetricString, pdu.SemDiscrete
	indom := &pmda.InDom{Insts: h.tools, Source: &pmda.Source{Read: h.read}}
	return append(metrics.Table(pmda.Metric{InDom: indom}, []row{
		{0, 0, "pmimport.archive", str, discrete, 0, of(func(t *tool) string { return t.archive })},
		{0, 1, "pmimport.version", str, discrete, 0, of(func(t *tool) string { return t.version })},
		{0, 2, "pmimport.args", str, discrete, 0, of(func(t *tool) string { return t.args })},
	}), metrics.Table(pmda.Metric{}, []row{
		{1, 0, "pmimport.hostname", str, discrete, 0, text(func() string {
			name, _ := os.Hostname() // on an error the value is ""
			return name
		})},
		{1, 1, "pmimport.timezone", str, discrete, 0, text(func() string { return zone.Text(time.Now(), h.zone().Location()) })},
		{1, 2, "pmimport.zoneinfo", str, discrete, 0, text(func() string { return h.zone().Name })},
	})...)
}
