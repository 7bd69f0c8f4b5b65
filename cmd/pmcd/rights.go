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

// rights records which agents run without root's rights in a daemon with a root
// helper, and logs one warning for each. It is nil in a daemon without one.
type rights struct {
	trustCheck
	trustAll bool
	log      *zap.Logger

	mu     sync.Mutex     // guards the following; agents start concurrently
	lost   string         // how the root helper ended; "" if it runs
	agents map[int]string // "runs as ..." by domain; no entry for agents with all their rights
	warned string         // last warning about the configuration file
}

// errNoRoot takes the place of a *roothelper.Untrusted when the root helper has
// ended.
var errNoRoot = errors.New("the root helper has ended")

// full records that an agent runs with all its rights.
func (r *rights) full(a *pmcdconf.Agent) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.agents, a.Domain)
}

// reduced records that an agent is started without root's rights because of why, and
// logs a warning. lacks is what the agent cannot do then; "" if it is not known.
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
		return // already logged
	}
	r.agents[a.Domain] = text
	var u *roothelper.Untrusted
	isUntrusted := errors.As(why, &u)
	if isUntrusted && u.Config {
		r.warnConfigLocked(u)
	}
	// For a reason that all agents share, the warning of this agent says only what
	// it lacks.
	if isUntrusted && !u.Config {
		text += "; " + r.remedy(u)
	} else if lacks == "" {
		return
	}
	r.log.Warn(fmt.Sprintf("agent %q (dom %d) %s", a.Name, a.Domain, text))
}

// warnConfigLocked logs one warning that users other than root can change the
// configuration file. The caller holds mu.
func (r *rights) warnConfigLocked(u *roothelper.Untrusted) {
	if text := u.Error(); text != r.warned {
		r.warned = text
		r.log.Warn(fmt.Sprintf("all agents run as %s: %s; %s", r.user, text, strings.Replace(r.remedy(u), "run it", "run them", 1)))
	}
}

// checkConfig returns how users other than root can change the configuration file;
// nil if they cannot.
func (r *rights) checkConfig() (u *roothelper.Untrusted) {
	if r != nil && !r.trustAll {
		errors.As(roothelper.CheckConfig(r.config), &u)
	}
	if u != nil && !u.Known() { // this user may not examine it; the root helper can
		return nil
	}
	return u
}

// start logs a warning if users other than root can change the configuration file.
func (r *rights) start() {
	if u := r.checkConfig(); u != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.warnConfigLocked(u)
	}
}

// helperEnded records how the root helper ended.
func (r *rights) helperEnded(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = how
}

// note returns "runs as ..." for an agent that runs without the root's rights that it
// would have, else "". It is "" for all agents if they share the reason: see all.
func (r *rights) note(domain int) string {
	if r == nil || len(r.all()) > 0 {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.agents[domain]
}

// all returns lines about the rights of all agents.
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
