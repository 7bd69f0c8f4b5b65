package daemon

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Health is the state of a Daemon as a whole: what a service manager shows in one
// line.
type Health struct {
	Agents int // in pmcd.conf
	Ready  int // of those, the ones that answer
	// Unwell names the other ones with their state, as in "simple is down", in
	// the order of pmcd.conf.
	Unwell []string
	// Problems are those of Daemon.Problems, a reload that failed, and the notes
	// about agents.
	Problems []string
}

// Health reports on the Daemon as a whole.
func (d *Daemon) Health() Health {
	h := Health{Problems: d.Problems()}
	if err := d.Reloads().Err; err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		h.Problems = append(h.Problems, "the last reload failed: "+text)
	}
	for _, st := range d.Agents() {
		h.Agents++
		if st.State == AgentReady {
			h.Ready++
		} else {
			if st.State == AgentStarting && st.Failures > 0 {
				st.State = AgentDown // for all that is known: not another status at each try
			}
			h.Unwell = append(h.Unwell, fmt.Sprintf("%s is %s", st.Name, st.State))
		}
		if st.Note != "" {
			h.Problems = append(h.Problems, fmt.Sprintf("%s %s", st.Name, st.Note))
		}
	}
	return h
}

// problems are conditions that an admin should know of and that do not keep
// pmcd from serving, each with a key. The oldest comes first.
type problems struct {
	mu   sync.Mutex // guards the following, which any goroutine may set
	list []problem
}

type problem struct{ key, text string }

// SetProblem sets the text of the problem with a key, in words for an admin. An empty
// text removes the problem.
func (d *Daemon) SetProblem(key, text string) {
	p := &d.problems
	p.mu.Lock()
	i := slices.IndexFunc(p.list, func(q problem) bool { return q.key == key })
	switch {
	case text == "" && i >= 0:
		p.list = slices.Delete(p.list, i, i+1)
	case text == "":
	case i >= 0:
		p.list[i].text = text
	default:
		p.list = append(p.list, problem{key, text})
	}
	p.mu.Unlock()
	d.HealthChanged()
}

// Problems returns the problems that there are, those of Config.Problems first
// and then the oldest. A reload that failed is not among them, and those of one
// agent are in its AgentStatus.
func (d *Daemon) Problems() (texts []string) {
	if d.cfg.Problems != nil {
		texts = d.cfg.Problems()
	}
	d.problems.mu.Lock()
	defer d.problems.mu.Unlock()
	for _, p := range d.problems.list {
		texts = append(texts, p.text)
	}
	return texts
}

// healthTime is the least time between two calls of Config.Changed, and how
// late one may be: agents may flap.
const healthTime = 500 * time.Millisecond

// HealthChanged has Config.Changed called soon. It is cheap and never waits.
func (d *Daemon) HealthChanged() {
	select {
	case d.healthNews <- struct{}{}:
	default: // a value that was not received yet stands for this change, too
	}
}

func (d *Daemon) reportChanged() {
	if d.cfg.Changed != nil {
		d.cfg.Changed(d.Health())
	}
}

// reportStarted reports the state of the agents that were started.
func (d *Daemon) reportStarted() {
	if d.cfg.AgentsStarted != nil {
		d.cfg.AgentsStarted(d.Health())
	}
}
