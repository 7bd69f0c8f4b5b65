package agentset

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/internal/transport"
)

// output is the last output of an agent that failed.
type output struct {
	what  string // as a log line calls it
	lines []string
}

// stderrTail is the output of an agent with a process.
func stderrTail(lines []string) output { return output{"end of its stderr", lines} }

// reap ends the process of a connection that is closed. It returns why the agent has
// ended, and the agent's last output. The agent was connected at the time up.
func (a *Agent) reap(c *Conn, up time.Time) (ended string, last output) {
	why, last := splitStack(c.cause)
	parts := []string{why}
	if p := c.Process; p != nil {
		byItself := closed(p.Done())
		p.Stop(a.set.cfg.Kill)
		switch {
		case !closed(p.Done()): // it has no status yet
			parts = append(parts, fmt.Sprintf("the process %d does not end", p.PID()))
		case !byItself:
			parts = append(parts, stoppedText(p.PID(), p.Status()))
		default:
			// The end of the stream may have come first.
			if end := transport.Ended(p.Status()); !errors.Is(c.cause, end) {
				parts = append(parts, end.Error())
			}
		}
		last = stderrTail(p.StderrTail())
	}
	if p := c.unanswered; p.Type != 0 {
		parts = append(parts, fmt.Sprintf("%v of client[%d] unanswered for %v", p.Type, p.Client, round(time.Since(p.Since))))
	}
	return strings.Join(append(parts, fmt.Sprintf("it was up for %v", round(time.Since(up)))), "; "), last
}

// failed raises the event of a failure, logs the failure, and returns a channel that
// receives a value at the time of the next start. message says what has failed, and has
// attributes for the name and the domain of a; more has further ones. If the daemon is
// about to end, failed logs nothing and returns nil.
func (a *Agent) failed(event failureEvent, message, why string, last output, more ...any) (restart <-chan time.Time) {
	cfg := &a.set.cfg
	why = logtext.Printable(why) // for pmcdctl status, too
	for i, text := range last.lines {
		last.lines[i] = logtext.Printable(text)
	}
	ending := a.set.ending()
	n, delay := event(why, last.lines, !cfg.NoRestart && !ending)
	cfg.Observer.AgentChanged(a)
	if ending {
		return nil
	}
	attrs := []any{"agent", a.Name(), "domain", a.Domain, "error", why, "attempt", n}
	attrs = append(attrs, more...)
	then := ": {error}; it is started again at SIGHUP (PMCD_RESTART_AGENTS=0)"
	if !cfg.NoRestart {
		restart = time.After(delay)
		then = ": {error}; next start in {delay}"
		attrs = append(attrs, "delay", delay)
	}
	if n > logThreshold {
		cfg.Limiter.Log(slog.LevelError, fmt.Sprint("failure ", a.Domain), message+", {attempt} failures in a row"+then, attrs...)
		return restart
	}
	message += then
	if len(last.lines) > 0 {
		message += "\n\t" + last.what + ":{output}"
		attrs = append(attrs, "output", last.lines)
	}
	cfg.Log.Error(message, attrs...)
	return restart
}

// A failureEvent is the method of a lifecycle for one of its two failures.
type failureEvent func(reason string, stderrTail []string, again bool) (failures int, delay time.Duration)

// splitStack returns the Reason of err without the stack of a panic, and the
// stack.
func splitStack(err error) (text string, stack output) {
	text, rest, panicked := strings.Cut(transport.Reason(err), "\n")
	if panicked {
		stack = output{"stack of the panic", strings.Split(strings.TrimSpace(rest), "\n")}
	}
	return text, stack
}

// round returns a duration with the precision that a log line needs.
func round(t time.Duration) time.Duration {
	switch {
	case t < 10*time.Millisecond:
		return t.Round(10 * time.Microsecond)
	case t < time.Second:
		return t.Round(time.Millisecond)
	}
	return t.Round(100 * time.Millisecond)
}

// stoppedText says how a process ended that pmcd has stopped. To stop a process, pmcd
// sends SIGTERM and at last SIGKILL.
func stoppedText(pid int, ws syscall.WaitStatus) string {
	switch {
	case ws.Signaled() && ws.Signal() == syscall.SIGTERM:
		return fmt.Sprintf("pmcd ended the process %d with SIGTERM", pid)
	case ws.Signaled() && ws.Signal() == syscall.SIGKILL:
		return fmt.Sprintf("pmcd ended the process %d with SIGKILL", pid)
	}
	return fmt.Sprintf("pmcd stopped the process %d%s", pid, exitText(ws))
}

// exitText returns how a process ended, in the words of C pmcd's log.
func exitText(ws syscall.WaitStatus) string {
	switch {
	case ws.Exited():
		return fmt.Sprintf(", exit(%d)", ws.ExitStatus())
	case ws.Signaled() && ws.CoreDump():
		return fmt.Sprintf(", signal(%d), dumped core", ws.Signal())
	case ws.Signaled():
		return fmt.Sprintf(", signal(%d)", ws.Signal())
	}
	return ""
}
