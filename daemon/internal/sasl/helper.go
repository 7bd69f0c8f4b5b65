package sasl

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
)

const (
	firstPause = time.Second // before the second start in a row after a failure; doubled by each
	maxPause   = time.Minute

	// stableAfter is how long a helper must have run for the next one to be started at once.
	stableAfter = time.Minute

	// controlLimit is how long pmcd waits for space in the socket to a helper that does not
	// read.
	controlLimit = time.Second
)

// A helper is a helper process. One goroutine, run, starts it, reads its messages and ends
// it. It is retired when there is a new configuration, or when it does not work: then it
// serves no further logins, and ends with the last one.
type helper struct {
	sock    socket        // set when started is closed and err is nil
	started chan struct{} // closed when the library is ready, or err is set
	err     error

	logins  int  // guarded by Host.mu
	retired bool // guarded by Host.mu
}

// acquire returns the helper for a login, and starts one if there is none. release must be
// called.
func (h *Host) acquire(ctx context.Context) (*helper, error) {
	h.mu.Lock()
	hp := h.helper
	if hp == nil {
		switch err := context.Cause(h.ctx); {
		case err != nil:
			h.mu.Unlock()
			return nil, err
		case time.Now().Before(h.retryAt):
			err = h.lastError
			h.mu.Unlock()
			return nil, err
		}
		hp = &helper{started: make(chan struct{})}
		h.helper = hp
		h.wg.Go(func() { h.run(hp) })
	}
	hp.logins++
	h.mu.Unlock()

	var err error
	select {
	case <-hp.started:
		err = hp.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		h.release(hp)
		return nil, err
	}
	return hp, nil
}

// release ends the use of a helper by a login.
func (h *Host) release(hp *helper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	hp.logins--
	h.endIfUnused(hp)
}

// retire makes hp, which may be nil, serve no further logins. h.mu is held.
func (h *Host) retire(hp *helper) {
	if hp == nil {
		return
	}
	hp.retired = true
	if h.helper == hp {
		h.helper = nil
	}
	h.endIfUnused(hp)
}

// endIfUnused closes the socket of a retired helper without logins, at which the process
// ends. h.mu is held.
func (h *Host) endIfUnused(hp *helper) {
	if !hp.retired || hp.logins > 0 {
		return
	}
	select {
	case <-hp.started:
		if hp.err == nil {
			hp.sock.Close()
		}
	default: // run looks when it has started
	}
}

// run starts a helper, reads its messages, and ends it when it has closed its socket or pmcd
// has.
func (h *Host) run(hp *helper) {
	sock, proc, err := h.start(false)
	if err == nil {
		err = h.awaitReady(sock)
		if err != nil {
			stop(proc, sock)
		}
	}
	began := time.Now()
	h.mu.Lock()
	hp.sock, hp.err = sock, err
	close(hp.started)
	if err == nil {
		h.endIfUnused(hp)
	} else {
		h.noteFailure(hp, err)
	}
	h.mu.Unlock()
	if err != nil {
		if h.ctx.Err() == nil {
			h.opt.Log.Log(slog.LevelError, "sasl start", "{error}", "error", err, logtext.Event("sasl_start_failed"))
		}
		return
	}

	b := make([]byte, maxPacket)
	for err == nil {
		var m message
		if m, err = readControl(sock, b); err == nil {
			h.logText(m)
		}
	}
	stop(proc, sock)
	reason := failed("the SASL helper has ended: %s", describe(proc.Status()))
	if errors.Is(err, errMessage) {
		reason = failed("%v", err)
	}
	if h.noteEnd(hp, began, reason) {
		h.opt.Log.Log(slog.LevelError, "sasl helper", "{error}; the next login starts it again", "error", reason)
	}
}

// noteEnd records that hp, which began at a time, has ended. It reports whether that is of
// importance for the next login.
func (h *Host) noteEnd(hp *helper, began time.Time, reason error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hp.retired {
		return false
	}
	if time.Since(began) >= stableAfter {
		h.failures = 0
	}
	h.noteFailure(hp, reason)
	return true
}

// readControl reads a text for the log, which is all that a helper sends once it is ready.
func readControl(sock socket, b []byte) (message, error) {
	b, err := sock.read(b)
	if err != nil {
		return message{}, err
	}
	m, err := parseControl(b)
	if err == nil && m.kind != msgText {
		err = errMessage
	}
	return m, err
}

// noteFailure records that hp did not start or has ended. h.mu is held.
func (h *Host) noteFailure(hp *helper, err error) {
	if h.helper == hp {
		h.helper = nil
	}
	if hp.retired {
		return // by Restart or Close: this is of no importance for the next one
	}
	hp.retired = true
	var pause time.Duration
	if h.failures > 0 {
		pause = min(firstPause<<min(h.failures-1, 10), maxPause)
	}
	h.failures++
	h.retryAt, h.lastError = time.Now().Add(pause), err
}

// probe finds out whether a helper can load the library.
func (h *Host) probe() error {
	sock, proc, err := h.start(true)
	if err != nil {
		return err
	}
	defer stop(proc, sock)
	return h.awaitReady(sock)
}

// start starts the process of a helper.
func (h *Host) start(probe bool) (socket, Process, error) {
	sock, theirs, err := newPair()
	if err != nil {
		return socket{}, nil, failed("cannot start the SASL helper: %v", err)
	}
	proc, err := h.opt.Start(theirs, probe)
	theirs.Close()
	if err != nil {
		sock.Close()
		return socket{}, nil, failed("cannot start the SASL helper: %v", err)
	}
	return sock, proc, nil
}

// awaitReady waits until a helper has loaded the library and its configuration.
func (h *Host) awaitReady(sock socket) error {
	stop := context.AfterFunc(h.ctx, func() { sock.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	sock.SetReadDeadline(time.Now().Add(h.opt.Timeout))
	if h.ctx.Err() != nil {
		return context.Cause(h.ctx)
	}
	b := make([]byte, maxPacket)
	for range maxTexts {
		b, err := sock.read(b)
		if err != nil {
			return failed("the SASL helper has not started: %v", err)
		}
		m, err := parseControl(b)
		switch {
		case err != nil:
			return failed("%v", err)
		case m.kind == msgReady:
			return sock.SetReadDeadline(time.Time{})
		case m.kind == msgNoLibrary:
			return failed("cannot load libsasl2: %s", m.text)
		case m.kind == msgRejected:
			return &Error{Code: errnoRejected, Reason: "Failed to start authenticating server: " + m.text}
		}
		h.logText(m)
	}
	return failed("the SASL helper has not started: too many messages")
}

// maxTexts is how many lines the library may log before what pmcd waits for.
const maxTexts = 64

// stop ends a helper process.
func stop(proc Process, sock socket) {
	sock.Close()
	ctx, cancel := context.WithTimeout(context.Background(), controlLimit)
	defer cancel()
	proc.Stop(ctx)
}

// describe returns how a process has ended.
func describe(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "ended by signal " + s.Signal().String()
	}
	return fmt.Sprintf("exit status %d", s.ExitStatus())
}
