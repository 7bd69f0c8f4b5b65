// Package sasl serves the logins of clients, by libsasl2 in a helper process.
//
// libsasl2 and its plugins parse what clients send before they are known to be users, so they
// are not in the process of pmcd, which has the rights to all metrics. The helper (package
// internal/saslhelper) has no rights and no connections but to pmcd. It forks a child for each
// login, so a crash or a saslauthd that does not reply is the matter of one client.
//
//	session ── Begin, Step ── Host ──────────── helper
//	                          Exchange ──────── its child, for one login
//
// A [Host] starts the helper at the first login and restarts it when it has ended, and after
// [Host.Restart]. An [Exchange] is a login. What arrives from both is checked as input of
// clients is. The package knows neither sessions nor the protocol of PCP.
//
// # Limits
//
// At most [Options.MaxLogins] logins are in progress. Others wait in a fair queue, and the
// oldest idle login of the busiest group is evicted. Few calls of the library compute at a
// time, as a login by SCRAM takes tens of milliseconds of CPU time; a call is not counted any
// more after quantum.
package sasl

import (
	"context"
	"log/slog"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/internal/logtext"
)

// Options are those of a Host.
type Options struct {
	// Start starts the helper. sock is its end of the socket, which the caller closes. If
	// probe is set the helper only says whether it can load the library.
	Start func(sock *os.File, probe bool) (Process, error)
	// Log is for lines that clients can cause again and again.
	Log *diag.LogLimiter
	// Timeout is how long the library may take for a message, and how long a login may wait for
	// its turn to begin; the default is 10 s, as long as C pmcd waits for a client.
	Timeout time.Duration
	// MaxLogins is how many logins can be under way; the default is 64, the most 200.
	MaxLogins int
	// MaxCalls is how many of them the library computes for at a time; the default is one less
	// than there are CPUs.
	MaxCalls int
}

// A Process is the helper process.
type Process interface {
	PID() int
	// Done is closed when the process has ended; then Status tells how.
	Done() <-chan struct{}
	Status() syscall.WaitStatus
	// Stop ends the process, at once when ctx ends.
	Stop(ctx context.Context)
}

const (
	defaultTimeout   = 10 * time.Second
	defaultMaxLogins = 64
	mostLogins       = 200 // fewer than the table of the helper has

	// quantum is after how long another call may begin beside one that has not returned.
	quantum = 200 * time.Millisecond

	// idleLimit is after how long a login that waits for its client may be evicted for any other.
	idleLimit = time.Second
)

// A Host serves logins. Its methods may be called by several goroutines at a time.
type Host struct {
	opt       Options
	available func() error
	logins    semaphore       // those in progress
	calls     semaphore       // of the library
	ctx       context.Context // ends by Close
	cancel    context.CancelFunc
	wg        sync.WaitGroup // helpers

	evicting  sync.Mutex // held by evict, so that only one login ends for one that waits; locked before mu
	mu        sync.Mutex // guards the following, and fields of helpers and Exchanges
	helper    *helper    // for the next login; nil if it must be started
	failures  int        // of helpers in a row
	retryAt   time.Time  // no helper is started before
	lastError error      // why the last helper did not start
	exchanges map[*Exchange]struct{}
	lastID    uint64
}

// New returns a Host, which must be closed. It starts a process that finds out whether
// the library can be loaded.
func New(opt Options) *Host {
	if opt.Timeout == 0 {
		opt.Timeout = defaultTimeout
	}
	if opt.MaxLogins == 0 {
		opt.MaxLogins = defaultMaxLogins
	}
	if opt.MaxCalls == 0 {
		opt.MaxCalls = mostCalls()
	}
	h := &Host{opt: opt, exchanges: make(map[*Exchange]struct{})}
	h.logins = newSemaphore(min(opt.MaxLogins, mostLogins))
	h.calls = newSemaphore(opt.MaxCalls)
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.available = sync.OnceValue(h.probe)
	h.wg.Go(func() { h.available() })
	return h
}

// mostCalls is the default of MaxCalls: one less than there are CPUs, since pmcd has a thread more
// than these, unless an admin has set GOMAXPROCS.
func mostCalls() int { return max(1, runtime.GOMAXPROCS(0)-2) }

// Resize makes the number of calls of the library at a time follow GOMAXPROCS.
func (h *Host) Resize() { h.calls.SetLimit(int64(mostCalls())) }

// Available returns nil if clients can log in, or else why they cannot. The answer is that of
// the time when the Host was made, and is waited for.
func (h *Host) Available() error { return h.available() }

// LoginLimit returns how many logins are under way, and how many may be.
func (h *Host) LoginLimit() (n, most int64) { return h.logins.Used(), h.logins.Limit() }

// Restart makes the next login use a new helper, which reads the configuration again. Logins
// that are under way go on with the old one.
func (h *Host) Restart() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures, h.retryAt, h.lastError = 0, time.Time{}, nil
	h.retire(h.helper)
}

// Close ends all logins and the helper, and waits for its end.
func (h *Host) Close() {
	h.cancel()
	h.mu.Lock()
	h.retire(h.helper)
	var list []*Exchange
	for e := range h.exchanges {
		list = append(list, e)
	}
	h.mu.Unlock()
	for _, e := range list {
		e.Close()
	}
	h.wg.Wait()
}

// evict ends logins that wait for their clients, as long as another login waits to begin:
// one of the group with most logins, if these are at least two more than the group has
// that waits; or one that has waited for idleLimit. It is called when a client begins to wait
// to begin, and when a login begins to wait for its client and has waited for idleLimit.
func (h *Host) evict() {
	h.evicting.Lock()
	defer h.evicting.Unlock()
	for next, waits := h.logins.Next(); waits; next, waits = h.logins.Next() {
		e := h.evictable(next)
		if e == nil {
			return
		}
		e.Close() // and the one that waits begins
	}
}

// evictable marks and returns the login that ends for one with the key next; nil if there is none.
func (h *Host) evictable(next fairqueue.Key) (chosen *Exchange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	logins := make(map[fairqueue.Group]int)
	for e := range h.exchanges {
		logins[e.login.Key.Group]++
	}
	most := 0
	for e := range h.exchanges {
		n := logins[e.login.Key.Group]
		if e.idleSince.IsZero() || n < logins[next.Group]+2 && time.Since(e.idleSince) < idleLimit {
			continue
		}
		if chosen == nil || n > most || n == most && e.idleSince.Before(chosen.idleSince) {
			chosen, most = e, n
		}
	}
	if chosen != nil {
		chosen.evicted = true
	}
	return chosen
}

// logText logs a line of the library. Equal lines are limited to one a minute.
func (h *Host) logText(m message) {
	level := slog.LevelError
	switch m.level {
	case 2:
		level = logtext.LevelAlert
	case 3:
		level = slog.LevelWarn
	}
	h.opt.Log.Log(level, "sasl: "+m.text, "{text}", "text", m.text, logtext.Event("sasl"))
}
