package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/logfile"
)

// grace is how long an agent may take to return after the end of the context, and to be
// closed after the end of the stream. A call of the agent, New or Close that hangs must not
// keep the process alive.
const grace = 5 * time.Second

// MaxReplyVar is the environment variable that says how long a reply may be, in bytes,
// as pmcd --max-reply does. pmcd sets it for the agents that it starts. The default
// is 64 MiB.
const MaxReplyVar = "PMCD_MAX_REPLY"

// A runner runs a Program once.
type runner struct {
	Program
	stdin          io.Reader
	stdout, stderr io.Writer
	grace          time.Duration
	process        bool // this is the whole process: not Run of a StandIn
	child          bool // in a child process of pmcd: RunChild, and Run of a StandIn

	given *settings // of a StandIn; they take the place of those on the command line
}

// preLogError writes a message to stderr, before the log is open.
func (r *runner) preLogError(format string, args ...any) {
	fmt.Fprintf(r.stderr, "%s: %s\n", r.Name, fmt.Sprintf(format, args...))
}

// run runs the program with the arguments args and returns the exit code.
func (r *runner) run(ctx context.Context, args []string) int {
	s, err := r.given, error(nil)
	if s == nil {
		s, err = r.settings(args)
	}
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
		f, err := logfile.Open(s.log)
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
	if !r.child || out != r.stderr {
		io.WriteString(out, logfile.Header(r.Name))
		defer func() { io.WriteString(out, logfile.Trailer()) }()
	}
	level := slog.LevelInfo
	if len(s.Debug) > 0 {
		level = slog.LevelDebug
	}
	s.Log = slog.New(NewHandler(out, r.Name, level))
	if r.process {
		slog.SetDefault(s.Log)
	}

	streamEnded := make(chan struct{}) // pmcd closed it
	done := make(chan int, 1)
	go func() {
		code := exitError
		defer func() { done <- code }()
		code = r.serveAgent(ctx, s, streamEnded)
	}()
	select {
	case code := <-done:
		return code
	case <-ctx.Done():
	case <-streamEnded:
	}
	t := time.NewTimer(r.grace)
	defer t.Stop()
	select {
	case code := <-done:
		return code
	case <-t.C:
		s.Log.Error("the agent has not stopped after {grace}: exiting without it", "grace", r.grace)
		return exitError
	}
}

// serveAgent makes the agent and serves it. It closes streamEnded at the end of
// the stream, before it closes the agent.
func (r *runner) serveAgent(ctx context.Context, s *settings, streamEnded chan<- struct{}) (code int) {
	defer func() {
		if v := recover(); v != nil {
			s.Log.Error("agent panicked: {panic}\n{stack}", "panic", fmt.Sprint(v), "stack", debug.Stack())
			code = exitError
		}
	}()
	// The endpoint is opened before the change of user, because the new user may
	// not have the permission, and before New is called, because pmcd tries to
	// connect only once and then waits.
	ep, err := r.openEndpoint(s)
	if err == nil {
		defer ep.close()
		if r.process && (!r.child || s.user != "") {
			err = setUser(s.user, r.User)
		}
	}
	if err != nil {
		s.Log.Log(ctx, levelCritical, "{error}", "error", err)
		return exitError
	}
	a, err := r.New(s.Start)
	if err != nil {
		s.Log.Error("cannot start the agent: {error}", "error", err)
		return exitError
	}
	if c, ok := a.(io.Closer); ok {
		defer func() {
			if err := c.Close(); err != nil {
				s.Log.Error("cannot close the agent: {error}", "error", err)
				code = exitError
			}
		}()
	}
	stream, err := ep.accept(ctx)
	if err == nil {
		srv := Server{Agent: a, Log: s.Log}
		if r.Prepare != nil {
			srv.Prepare = func(ctx context.Context) { r.Prepare(ctx, a) }
		}
		if r.process || r.child {
			srv.MaxReply = maxReply(os.Getenv(MaxReplyVar), s.Log)
		}
		err = srv.Serve(ctx, stream)
		close(streamEnded)
	}
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET): // pmcd closed the stream before it read a reply
	default:
		s.Log.Error("{error}", "error", err)
		return exitError
	}
	return exitOK
}

// maxReply returns the number of bytes in v, the value of MaxReplyVar; 0, which is the
// default, if v is empty or not valid.
func maxReply(v string, log *slog.Logger) int {
	n, err := strconv.Atoi(v)
	if err == nil && n > 0 {
		return n
	}
	if v != "" {
		log.Warn("PMCD_MAX_REPLY={value} in environment is ignored: not a number of bytes", "value", v)
	}
	return 0
}
