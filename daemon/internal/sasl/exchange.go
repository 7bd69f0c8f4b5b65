package sasl

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/fairqueue"
	"github.com/gopcp/pmcd/pdu"
)

// A Login describes the client that logs in.
type Login struct {
	SSF int           // strength of the client's TLS in bits; 0 is none
	Key fairqueue.Key // for turns

	// Check is called each second while the login waits for its turn, by the goroutine that
	// called Begin or Step. Its error, such as that the client has disconnected, ends the
	// login. It may be nil.
	Check func() error
}

// An Exchange is a login that is under way. One goroutine at a time calls Step; any may call
// Close.
type Exchange struct {
	host   *Host
	helper *helper
	login  Login
	id     uint64
	sock   socket
	end    sync.Once
	buf    [maxPacket]byte
	steps  int
	use    *fairqueue.Use

	// Guarded by Host.mu.
	idleSince time.Time   // since when it waits for its client; zero if it does not
	idleTimer *time.Timer // calls evict when it has waited; nil before the first time
	evicted   bool        // ended for another login
}

// maxSteps is how many messages a client may send in a login. Mechanisms need up to five.
const maxSteps = 16

// Begin begins a login. It returns the mechanisms that the client can choose from, in a list
// with blanks between them. The login ends when a method of the Exchange returns an error or
// done, or by Close. Errors are an *Error, the cause of the end of ctx,
// context.DeadlineExceeded if its turn did not come in time, or wrap that of l.Check. ctx should
// have no deadline: it could end before a helper that hangs has had its time, and is replaced.
func (h *Host) Begin(ctx context.Context, l Login) (*Exchange, string, error) {
	if err := h.Available(); err != nil {
		return nil, "", failed("%v", err)
	}
	wait, cancel := context.WithTimeout(ctx, h.opt.Timeout)
	defer cancel()
	use, err := h.logins.acquire(wait, &l, h.evict)
	if err != nil {
		return nil, "", err
	}
	start, cancelStart := context.WithTimeout(ctx, 2*h.opt.Timeout)
	defer cancelStart()
	hp, err := h.acquire(start)
	if err != nil {
		use.End()
		return nil, "", err
	}
	e := &Exchange{host: h, helper: hp, login: l, use: use}
	h.mu.Lock()
	h.lastID++
	e.id = h.lastID
	h.mu.Unlock()
	mechs, err := e.begin(ctx, wait)
	if err != nil {
		e.Close()
		return nil, "", err
	}
	return e, mechs, nil
}

// begin has the helper fork the child. It waits for its turn until the end of wait.
func (e *Exchange) begin(ctx, wait context.Context) (mechs string, err error) {
	h := e.host
	release, err := h.calls.acquireFor(wait, &e.login, quantum)
	if err != nil {
		return "", err
	}
	defer release()
	sock, theirs, err := newPair()
	if err != nil {
		return "", failed("%v", err)
	}
	h.mu.Lock()
	e.sock = sock
	h.exchanges[e] = struct{}{}
	h.mu.Unlock()
	if h.ctx.Err() != nil { // Close has not seen e
		theirs.Close()
		return "", context.Cause(h.ctx)
	}
	err = sock.write(h.opt.Timeout, msgBegin, binary.BigEndian.AppendUint32(nil, uint32(e.login.SSF)), nil)
	if err == nil {
		err = e.helper.sock.write(controlLimit, msgLogin, id8(e.id), theirs)
	}
	theirs.Close()
	var m message
	if err == nil {
		m, err = e.receive(ctx)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded) && ctx.Err() == nil: // the child had nothing to wait for
		err = failed("the SASL helper does not answer")
		h.opt.Log.Log(slog.LevelError, "sasl helper", "{error}; the next login starts another one", "error", err)
		h.mu.Lock()
		h.retire(e.helper)
		h.mu.Unlock()
		return "", err
	case err != nil:
		return "", e.explain(ctx, err)
	case m.kind == msgFailed:
		return "", &Error{Code: m.code}
	case m.kind != msgMechs:
		return "", e.explain(ctx, errMessage)
	}
	e.idle(true)
	return m.text, nil
}

// Step passes on what the client has sent: first the name of a mechanism, with a NUL and an
// initial response or without, and then responses. It returns the challenge for the client; or
// done, and the name of the user of a successful login. The challenge is valid until the next call.
func (e *Exchange) Step(ctx context.Context, in []byte) (challenge []byte, done bool, user string, err error) {
	defer func() {
		if err != nil || done {
			e.Close()
		}
	}()
	if e.steps++; len(in) > MaxPayload || e.steps > maxSteps {
		return nil, false, "", &Error{Code: pdu.ErrnoIPC, Reason: "a message of the client is too long, or there are too many"}
	}
	e.idle(false)
	m, err := e.step(ctx, in)
	switch {
	case err != nil:
		return nil, false, "", e.explain(ctx, err)
	case m.kind == msgChallenge:
		e.idle(true)
		return m.data, false, "", nil
	case m.kind == msgOK:
		return nil, true, m.text, nil
	case m.kind == msgFailed:
		return nil, false, "", &Error{Code: m.code}
	}
	return nil, false, "", e.explain(ctx, errMessage)
}

// step makes one call of the library.
func (e *Exchange) step(ctx context.Context, in []byte) (message, error) {
	release, err := e.host.calls.acquireFor(ctx, &e.login, quantum)
	if err != nil {
		return message{}, err
	}
	defer release()
	if err := e.sock.write(e.host.opt.Timeout, msgData, in, nil); err != nil {
		return message{}, err
	}
	return e.receive(ctx)
}

// receive waits for an answer, and logs what comes before it.
func (e *Exchange) receive(ctx context.Context) (m message, err error) {
	e.sock.SetReadDeadline(time.Now().Add(e.host.opt.Timeout))
	stop := context.AfterFunc(ctx, func() { e.sock.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	for range maxTexts {
		b, err := e.sock.read(e.buf[:])
		if err != nil {
			return m, err
		}
		if m, err = parseReply(b); err != nil || m.kind != msgText {
			return m, err
		}
		e.host.logText(m)
	}
	return m, errMessage
}

// explain returns the error of the login for an error of its socket.
func (e *Exchange) explain(ctx context.Context, err error) error {
	e.host.mu.Lock()
	evicted := e.evicted
	e.host.mu.Unlock()
	var check checkError
	switch {
	case errors.As(err, &check):
		return check
	case evicted:
		return failed("the login was ended: there were too many at once")
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.host.ctx.Err() != nil:
		return context.Cause(e.host.ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = failed("no answer from the SASL library for %v", e.host.opt.Timeout)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		err = failed("the process of the login has ended")
	default:
		err = failed("%v", err)
	}
	e.host.opt.Log.Log(slog.LevelError, "sasl: "+err.Error(), "SASL: {error}", "error", err)
	return err
}

// idle notes whether the login waits for its client. A login that waits may have to make
// room for others.
func (e *Exchange) idle(on bool) {
	h := e.host
	h.mu.Lock()
	_, underWay := h.exchanges[e]
	switch {
	case !underWay: // ended by another goroutine
	case !on:
		e.idleSince = time.Time{}
		e.idleTimer.Stop()
	case e.idleTimer == nil:
		e.idleSince = time.Now()
		e.idleTimer = time.AfterFunc(idleLimit, h.evict)
	default:
		e.idleSince = time.Now()
		e.idleTimer.Reset(idleLimit)
	}
	h.mu.Unlock()
	if on {
		h.evict()
	}
}

// Close ends the login. It does nothing if the login has ended.
func (e *Exchange) Close() {
	e.end.Do(func() {
		h := e.host
		h.mu.Lock()
		delete(h.exchanges, e)
		if e.idleTimer != nil {
			e.idleTimer.Stop()
		}
		h.mu.Unlock()
		if e.sock.UnixConn != nil {
			e.sock.Close()
			// Also if it should have ended by itself.
			if err := e.helper.sock.write(controlLimit, msgKill, id8(e.id), nil); errors.Is(err, os.ErrDeadlineExceeded) {
				h.mu.Lock()
				h.retire(e.helper)
				h.mu.Unlock()
			}
		}
		h.release(e.helper)
		e.use.End()
	})
}
