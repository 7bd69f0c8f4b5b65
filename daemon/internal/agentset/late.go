package agentset

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
)

// forever is the grace period of an agent that is not restarted when it is late.
const forever = time.Duration(math.MaxInt64 / 2)

// lateGrace is how long an agent may be late.
func (s *Set) lateGrace() time.Duration {
	switch g, timeout := s.cfg.LateGrace, s.cfg.RequestTimeout(); {
	case g < 0:
		return 0
	case g > 0:
		return g
	case timeout > 0:
		return 10 * timeout
	}
	return forever // a client has set the timeout to 0 while the agent was late
}

// onTransportState is called when the state of the transport of a has changed.
func (a *Agent) onTransportState(s transport.State) {
	cfg := &a.set.cfg
	was := a.life.transportState(s)
	cfg.Observer.AgentChanged(a)
	message := "agent {agent:q} (dom {domain}) is {state}"
	attrs := []any{"agent", a.Name(), "domain", a.Domain, "state", s}
	level := slog.LevelInfo
	if c := a.Conn(); s == transport.Late && c != nil {
		if w, ok := c.Transport.(transport.AbandonCounter); ok {
			message += ", calls abandoned so far: {abandoned}"
			attrs = append(attrs, "abandoned", w.Abandoned())
		}
		if p, ok := c.Pending(); ok {
			message += "; no answer to {request} for client[{client}] in {waited} (-t)"
			attrs = append(attrs, "request", p.Type, "client", p.Client, "waited", round(time.Since(p.Since)))
		}
		then, more := a.set.afterLate(c)
		message += "; requests for it get PM_ERR_AGAIN until it answers; " + then
		attrs = append(attrs, more...)
		level = slog.LevelWarn
	}
	cfg.Limiter.Log(level, fmt.Sprint("state ", a.Domain, s), message, attrs...)
	if s == transport.Ready {
		cfg.Observer.AgentReady(a, was == transport.NotReady)
	}
	select {
	case a.stateChanged <- struct{}{}:
	default:
	}
}

// afterLate returns what pmcd does if the agent of c, which is late, does not answer. The
// text is part of the message of a log entry.
func (s *Set) afterLate(c *Conn) (message string, attrs []any) {
	switch grace := s.lateGrace(); {
	case c.inProcess():
		return "it runs in pmcd's process and cannot be killed", nil
	case grace == forever:
		return "it is not restarted (-t 0)", nil
	case grace == 0:
		message = "it is {end} now (--late-grace=0), and {then}"
	default:
		message = "without an answer in {delay} (--late-grace) it is {end}, and {then}"
		attrs = []any{"delay", round(grace)}
	}
	end, then := "killed", "started again"
	if c.Process == nil { // pmcd has not started it
		end, then = "disconnected", "connected again"
	}
	if s.cfg.NoRestart {
		then += " by a reload only"
	}
	return strings.NewReplacer("{end}", end, "{then}", then).Replace(message), attrs
}

// inProcess reports whether the agent runs in pmcd's process.
func (c *Conn) inProcess() bool { return c.Process == nil && c.In < 0 }
