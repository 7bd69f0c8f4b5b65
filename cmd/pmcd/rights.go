package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/agents/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A rights knows which agents run without root's rights, in a daemon that has a
// root helper. It writes one warning for each. A nil rights is for other daemons.
type rights struct {
	trustCheck
	trustAll bool
	log      *zap.Logger

	mu     sync.Mutex     // guards the following, which agents that start at once set
	lost   string         // how the root helper has ended; "" if it has not
	agents map[int]string // "runs as ..." by domain; none for root's
	warned string         // what was said of the configuration file
}

// errNoRoot is in place of an *roothelper.Untrusted when the helper has ended.
var errNoRoot = errors.New("the root helper has ended")

// full says that an agent has the rights that it is meant to have.
func (r *rights) full(a *pmcdconf.Agent) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, a.Domain)
}

// reduced says that an agent is started without root's rights because of why, and
// what it lacks then, if that is known.
func (r *rights) reduced(a *pmcdconf.Agent, why error, lacks string) {
	if r == nil {
		return
	}
	text := r.runsAs(why)
	if lacks != "" {
		text += "; " + lacks
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.agents[a.Domain] == text {
		return // it is known
	}
	r.agents[a.Domain] = text
	var u *roothelper.Untrusted
	isUntrusted := errors.As(why, &u)
	if isUntrusted && u.Config {
		r.warnConfigLocked(u)
	}
	// Of a reason that all agents share only what is this one's own is said.
	if isUntrusted && !u.Config {
		text += "; " + r.remedy(u)
	} else if lacks == "" {
		return
	}
	r.log.Warn(fmt.Sprintf("agent %q (dom %d) %s", a.Name, a.Domain, text))
}

// warnConfigLocked warns of a configuration file that is not root's, once. The
// caller holds mu.
func (r *rights) warnConfigLocked(u *roothelper.Untrusted) {
	if text := u.Error(); text != r.warned {
		r.warned = text
		r.log.Warn(fmt.Sprintf("all agents run as %s: %s; %s", r.user, text, strings.Replace(r.remedy(u), "run it", "run them", 1)))
	}
}

// checkConfig returns why the configuration file is not root's, if it is not.
func (r *rights) checkConfig() (u *roothelper.Untrusted) {
	if r != nil && !r.trustAll {
		errors.As(roothelper.CheckConfig(r.config), &u)
	}
	if u != nil && !u.Known() { // not to this user; the root helper finds out
		return nil
	}
	return u
}

// start warns of a configuration file that is not root's.
func (r *rights) start() {
	if u := r.checkConfig(); u != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.warnConfigLocked(u)
	}
}

// helperEnded says how the root helper has ended.
func (r *rights) helperEnded(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = how
}

// note says how an agent runs that has not root's rights and would have, or "". A
// reason that all agents share is not repeated for each: see all.
func (r *rights) note(domain int) string {
	if r == nil || len(r.all()) > 0 {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.agents[domain]
}

// all says what is true of all agents.
func (r *rights) all() (lines []string) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	if r.lost != "" {
		lines = append(lines, fmt.Sprintf("%s: agents run as %s", r.lost, r.user))
	}
	r.mu.Unlock()
	if u := r.checkConfig(); u != nil {
		lines = append(lines, fmt.Sprintf("all agents run as %s: %v", r.user, u))
	}
	return lines
}
