package privsep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// Rights records which agents run without root's rights in a daemon with a root
// helper, and logs one warning for each. It is nil in a daemon without one.
type Rights struct {
	TrustCheck
	trustAll bool
	log      *slog.Logger

	mu     sync.Mutex     // guards the following; agents start concurrently
	lost   string         // how the root helper ended; "" if it runs
	agents map[int]string // "runs as ..." by domain; no entry for agents with all their rights
	// untrusted says how users other than root can change the configuration file; "" if they cannot.
	// It is what the root helper has found at its last start of an agent: Problems must not wait for
	// a file system.
	untrusted string
}

// ErrNoHelper takes the place of a *roothelper.Untrusted when the root helper has
// ended.
var ErrNoHelper = errors.New("the root helper has ended")

// Full records that an agent runs with all its rights.
func (r *Rights) Full(a *pmcdconf.Agent) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, a.Domain)
}

// Started records that the root helper has started an agent: with all its rights, from a
// configuration file that only root can change.
func (r *Rights) Started(a *pmcdconf.Agent) {
	if r == nil {
		return
	}
	r.Full(a)
	r.setUntrusted("")
}

// Reduced records that an agent is started without root's rights because of why, and
// logs a warning. lacks is what the agent cannot do then; "" if it is not known.
func (r *Rights) Reduced(a *pmcdconf.Agent, why error, lacks string) {
	if r == nil {
		return
	}
	text := r.RunsAs(why)
	if lacks != "" {
		text += "; " + lacks
	}
	var u *roothelper.Untrusted
	isUntrusted := errors.As(why, &u)
	switch {
	case isUntrusted && u.Config:
		r.warnConfig(u)
	case isUntrusted: // the root helper checks the configuration file first
		r.setUntrusted("")
	}
	if !r.reduce(a.Domain, text) {
		return // already logged
	}
	message := "agent {agent:q} (dom {domain}) runs as {user}: {error}"
	attrs := []any{"agent", a.Name, "domain", a.Domain, "user", r.user, "error", why}
	if lacks != "" {
		message += "; {lacks}"
		attrs = append(attrs, "lacks", lacks)
	}
	// For a reason that all agents share, the warning of this agent says only what
	// it lacks.
	if isUntrusted && !u.Config {
		message += "; {remedy}"
		attrs = append(attrs, "remedy", r.Remedy(u))
	} else if lacks == "" {
		return
	}
	r.log.Warn(message, attrs...)
}

// reduce records why the agent of a domain does not have root's rights. It reports whether
// that is new.
func (r *Rights) reduce(domain int, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.agents[domain]
	r.agents[domain] = text
	return was != text
}

// warnConfig logs one warning that users other than root can change the configuration file.
func (r *Rights) warnConfig(u *roothelper.Untrusted) {
	if text := u.Error(); r.setUntrusted(text) {
		r.log.Warn("all agents run as {user}: {error}; {remedy}", "user", r.user, "error", text,
			"remedy", strings.Replace(r.Remedy(u), "run it", "run them", 1))
	}
}

// setUntrusted records how users other than root can change the configuration file. It reports
// whether that is new.
func (r *Rights) setUntrusted(how string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.untrusted
	r.untrusted = how
	return was != how
}

// start logs a warning if users other than root can change the configuration file. It
// returns an error if ctx ends before that is known.
func (r *Rights) start(ctx context.Context) error {
	if r.trustAll {
		return nil
	}
	checked := make(chan error, 1)
	go func() { checked <- roothelper.CheckConfig(r.config) }()
	select {
	case err := <-checked:
		var u *roothelper.Untrusted
		if errors.As(err, &u) && u.Known() { // else this user may not examine it; the root helper can
			r.warnConfig(u)
		}
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// helperEnded records how the root helper ended.
func (r *Rights) helperEnded(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = how
}

// Note returns "runs as ..." for an agent that runs without the root's rights that it
// would have, else "". It is "" for all agents if they share the reason: see Problems.
func (r *Rights) Note(domain int) string {
	if r == nil || len(r.Problems()) > 0 {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.agents[domain]
}

// Problems returns lines about the rights of all agents. It waits for no file system.
func (r *Rights) Problems() (lines []string) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost != "" {
		lines = append(lines, fmt.Sprintf("%s; agents run as %s, without root's rights, until pmcd is restarted", r.lost, r.user))
	}
	if r.untrusted != "" {
		lines = append(lines, fmt.Sprintf("all agents run as %s: %s", r.user, r.untrusted))
	}
	return lines
}
