package openmetrics

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A source is a file of the configuration: a *.url file, or a script. It is read by a goroutine of
// its own, of which there is one at a time: a source that does not reply holds up only those who
// wait for it.
type source struct {
	name    string // the part of the names of its metrics: "host.job"
	prefix  string // root of the names, and name
	path    string
	script  bool
	cluster int
	domain  int
	dir     string // of saved numbers
	log     *slog.Logger
	maxPage int64
	read    func(context.Context, *page) (statusCode int, err error)

	tried time.Time // when the last read began; the agent's goroutine has it

	// mu guards the following, which a read changes line by line.
	mu      sync.Mutex
	running *reading // the read in progress, or nil
	hung    bool     // the last read took all of its time
	file    *urlFile
	seen    fileState // of path when file was parsed

	endpoint string             // that the metrics are from
	items    *table             // numbers of metrics
	metrics  map[string]*metric // by the name in the page
	byItem   []*metric          // those that clients may know; nil if a number has no metric
	pending  []*metric          // those that they may not know yet
	fresh    []*metric          // those that are new in byItem, for the tree of names
	series   map[string]series
	keys     int             // bytes of the keys of series
	names    int             // saved names of instances
	bytes    int             // of these names in files
	held     int             // bytes of raw and texts of the metrics
	dirty    map[*table]bool // have names that are not known
	unsaved  map[*table]bool
	saved    time.Time // when the last one of them was written
	saveErr  error     // why they are not saved

	// Samples are numbered. A value is valid if its number is more than base, which is that of the
	// last sample before the page.
	seq, base uint64
	valid     bool // a whole page has been read
	stats     stats
	lastError string    // that has been reported
	reported  time.Time // when it was logged
}

// stats are what the control metrics say about a source.
type stats struct {
	calls           uint64
	fetched, parsed time.Duration // how long that took
	status          string
	code            int32 // of HTTP
}

// A reading is a read in progress.
type reading struct{ done chan struct{} }

func newSource(a *agent, name, path string, script bool, cluster int) *source {
	s := &source{
		name: name, prefix: a.root + "." + name, path: path, script: script, cluster: cluster,
		domain: a.domain, dir: a.savedDir, log: a.log, maxPage: a.maxPage,
		items:   newTable(a.savedDir, a.domain, cluster, maxItems),
		metrics: make(map[string]*metric),
		series:  make(map[string]series),
		dirty:   make(map[*table]bool),
		unsaved: make(map[*table]bool),
		stats:   stats{status: "unknown"},
	}
	s.read = a.readURL
	if script {
		s.read = a.readScript
	}
	return s
}

// start starts a read, unless one is in progress: a request that arrives during a read shares it.
func (s *source) start(ctx context.Context, slots chan struct{}, limit time.Duration) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.running != nil {
		return s.running
	}
	r := &reading{done: make(chan struct{})}
	s.running = r
	s.tried = time.Now()
	s.stats.calls++
	s.base, s.valid = s.seq, false
	go func() {
		defer close(r.done)
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
		}
		s.readPage(ctx, limit)
	}()
	return r
}

// readPage reads the source once.
func (s *source) readPage(ctx context.Context, limit time.Duration) {
	begin := time.Now()
	p := &page{src: s}
	s.recheck()
	err := s.parseFile()
	if err == nil {
		err = s.checkTrust()
	}
	code := 0
	if err == nil {
		p.file = s.file
		code, err = s.read(ctx, p)
	}
	hung := ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded)
	if hung {
		err = fmt.Errorf("no complete reply within %v", limit)
	}
	total := time.Since(begin)

	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.commit()
	} else {
		s.drop()
	}
	s.running, s.hung = nil, hung
	s.stats.code = int32(code)
	s.stats.parsed += p.parseTime
	if err == nil {
		s.stats.fetched += total - p.parseTime
	}
	s.valid = err == nil
	s.report(p, err)
	if s.held > maxHeld {
		s.forgetGone()
	}
	if len(s.series) > 2*p.count+1000 || s.keys > maxHeld { // series that were, and are not any more
		s.forgetSeries()
	}
}

// recheck reads saved files that have not been read, or were damaged.
func (s *source) recheck() {
	s.items.recheck(&s.mu)
	for _, m := range s.metrics { // only a read changes it
		if m.insts != nil && m.insts.damaged != nil {
			m.insts.recheck(&s.mu)
			s.count(m.insts, 1)
		}
	}
}

// forgetGone forgets all but the numbers of the instances that the last page does not have, as a
// restart of the agent does. mu is held.
func (s *source) forgetGone() {
	for _, m := range s.metrics {
		for i := range m.cells {
			if m.cells[i].seq <= s.base {
				s.held -= m.forget(i)
			}
		}
	}
	s.forgetSeries() // its keys are what was forgotten, too
}

// from says where the page that follows is from. What pages of another endpoint have declared does not
// count for it: a server that may redirect would otherwise choose the types of what another one
// replies, such as string for a line that is a secret.
func (s *source) from(endpoint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if endpoint == s.endpoint {
		return
	}
	s.endpoint = endpoint
	s.drop()
	for _, m := range s.metrics {
		for i := range m.cells {
			s.held -= m.forget(i)
		}
	}
	clear(s.metrics)
	s.forgetSeries()
}

// forgetSeries makes the next page parse the labels of all series again. mu is held.
func (s *source) forgetSeries() {
	clear(s.series)
	s.keys = 0
}

// parseFile parses a *.url file, unless it has not changed.
func (s *source) parseFile() error {
	st, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	if s.script {
		if st.Mode()&0o100 == 0 {
			return errors.New("the script is not executable")
		}
		return nil
	}
	if state := stateOf(st); s.file == nil || state != s.seen {
		text, err := regular.ReadFile(s.path, maxURLFile)
		if err != nil {
			return err
		}
		f, err := parseURLFile(string(text))
		if err != nil {
			return err
		}
		for _, line := range f.ignored {
			word, _, _ := strings.Cut(strings.TrimLeft(line, "# "), " ") // the rest may be a password
			s.log.Warn("{path}: the line that begins with {text:q} is ignored", "path", s.path, "text", word)
		}
		s.mu.Lock()
		s.file, s.seen = f, state
		s.forgetSeries() // other filters
		s.mu.Unlock()
	}
	return nil
}

// commit saves new numbers, and then makes what has them known to clients. mu is held.
//
// C has the same: numbers that cannot be saved are used.
func (s *source) commit() {
	tables := slices.Collect(maps.Keys(s.dirty))
	if time.Since(s.saved) >= saveRetry {
		for t := range s.unsaved {
			if !s.dirty[t] {
				tables = append(tables, t)
			}
		}
	}
	if len(tables) > 0 {
		s.saved = time.Now()
		if err := save(&s.mu, tables); err != nil {
			s.saveErr = err
		}
		for _, t := range tables {
			if delete(s.unsaved, t); t.unsaved {
				s.unsaved[t] = true
			}
		}
		if len(s.unsaved) == 0 {
			s.saveErr = nil
		}
	}
	clear(s.dirty)
	for _, m := range s.pending {
		if n := m.item + 1 - len(s.byItem); n > 0 {
			s.byItem = append(s.byItem, make([]*metric, n)...)
		}
		if m.old != nil && m.old.insts != m.insts && m.old.insts != nil {
			s.count(m.old.insts, -1)
		}
		s.byItem[m.item] = m
		s.fresh = append(s.fresh, m)
	}
	s.pending = nil
}

// drop forgets what is new since the last commit: the page has no values. mu is held.
func (s *source) drop() {
	for _, m := range s.pending {
		delete(s.metrics, m.sample)
		for i := range m.cells {
			s.held -= m.forget(i)
		}
		if m.insts != nil && (m.old == nil || m.old.insts != m.insts) {
			s.count(m.insts, -1)
			delete(s.dirty, m.insts)
		}
	}
	if len(s.pending)+len(s.dirty) > 0 {
		s.forgetSeries()
	}
	s.pending = nil
	for t := range s.dirty {
		if t == s.items {
			t.forget()
			continue
		}
		s.count(t, -1)
		t.forget()
		s.count(t, 1)
	}
	clear(s.dirty)
}

// count adds the names of a table of instances to those of the source, or subtracts them.
func (s *source) count(t *table, sign int) {
	s.names += sign * len(t.names)
	s.bytes += sign * t.bytes
}

// isHung reports whether the last read of s has not ended in time, or has not ended at all.
func (s *source) isHung() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hung || s.running != nil
}

func (s *source) isEmpty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.byItem) == 0
}
