package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents/wire"
)

// grace is how long an agent may take to end: a call, New or Close that goes
// on must not keep a process that nobody wants.
const grace = 5 * time.Second

// A runner is one run of a Program.
type runner struct {
	Program
	stdin          io.Reader
	stdout, stderr io.Writer
	grace          time.Duration
	process        bool // this is the whole process: Main, not Run
	child          bool // of pmcd: RunChild
}

// preLogError is for what comes before the log.
func (r *runner) preLogError(format string, args ...any) {
	fmt.Fprintf(r.stderr, "%s: %s\n", r.Name, fmt.Sprintf(format, args...))
}

// run is a run from the command line to the exit code.
func (r *runner) run(ctx context.Context, args []string) int {
	s, err := r.settings(args)
	var u *usageError
	if errors.As(err, &u) {
		for _, err := range u.errs {
			if err != errHelp {
				r.preLogError("%v", err)
			}
		}
		io.WriteString(r.stderr, u.text)
		return exitError
	}

	out := r.stderr
	if s.log != "-" {
		f, err := openLog(s.log)
		if err == nil && r.process {
			err = redirectOutput(f)
		}
		if err != nil {
			r.preLogError("cannot open log %q for writing : %v", s.log, err)
		} else {
			out = f
			defer f.Close()
		}
	}
	if !r.child {
		logHeader(out, r.Name)
		defer logTrailer(out)
	}
	level := slog.LevelInfo
	if len(s.Debug) > 0 {
		level = slog.LevelDebug
	}
	s.Log = slog.New(NewHandler(out, r.Name, level))
	if r.process {
		slog.SetDefault(s.Log)
	}

	ended := make(chan struct{}) // by pmcd
	done := make(chan int, 1)
	go func() {
		code := exitError
		defer func() { done <- code }()
		code = r.serveAgent(ctx, s, sync.OnceFunc(func() { close(ended) }))
	}()
	select {
	case code := <-done:
		return code
	case <-ctx.Done():
	case <-ended:
	}
	t := time.NewTimer(r.grace)
	defer t.Stop()
	select {
	case code := <-done:
		return code
	case <-t.C:
		s.Log.Error("the agent does not end: it is left as it is")
		return exitError
	}
}

// serveAgent has the agent made and serves it. It calls ended when the stream has
// ended.
func (r *runner) serveAgent(ctx context.Context, s *settings, ended func()) (code int) {
	defer func() {
		if v := recover(); v != nil {
			s.Log.Error(fmt.Sprintf("agent panicked: %v\n%s", v, debug.Stack()))
			code = exitError
		}
	}()
	// Before the change of user, which may not be allowed to; and before the
	// agent is made, because pmcd connects once and then waits.
	conn, err := r.openEndpoint(s)
	if err == nil {
		defer conn.close()
		if r.process && !r.child {
			err = setUser(s.user, r.User)
		}
	}
	if err != nil {
		s.Log.Log(ctx, levelCritical, err.Error())
		return exitError
	}
	a, err := r.New(s.Start)
	if err != nil {
		s.Log.Error(fmt.Sprintf("cannot start the agent: %v", err))
		return exitError
	}
	if c, ok := a.(io.Closer); ok {
		defer func() {
			if err := c.Close(); err != nil {
				s.Log.Error(fmt.Sprintf("cannot close the agent: %v", err))
				code = exitError
			}
		}()
	}
	stream, err := conn.accept(ctx)
	if err == nil {
		srv := wire.Server{Agent: a, Log: s.Log}
		err = srv.Serve(ctx, eofNotifier{stream, ended})
		ended()
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET): // pmcd did not wait for an answer
	default:
		s.Log.Error(err.Error())
		return exitError
	}
	return exitOK
}

// An eofNotifier calls ended when it has been read to its end: pmcd has gone,
// although the Agent may still be at work for it.
type eofNotifier struct {
	io.ReadWriteCloser
	ended func()
}

func (e eofNotifier) Read(p []byte) (int, error) {
	n, err := e.ReadWriteCloser.Read(p)
	if err != nil {
		e.ended()
	}
	return n, err
}
