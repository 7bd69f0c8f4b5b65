package reload

import (
	"fmt"
	"time"

	"github.com/gopcp/pmcd/internal/logtext"
)

// A running is a reload in progress, and what it does.
type running struct {
	began time.Time
	step  string // after "it"
}

// Begin is called before Reload and ReloadNames. The reload is overdue when Config.Overdue has
// passed since then, however late its goroutine starts.
func (r *Reloader) Begin() { r.running.Store(&running{time.Now(), "writes to the log"}) }

// step and end are called by the goroutine of the reload. Step does nothing at the start of
// the daemon, which is no reload.
func (r *Reloader) step(text string) {
	if p := r.running.Load(); p != nil {
		r.running.Store(&running{p.began, text})
	}
}

func (r *Reloader) end() { r.running.Store(nil) }

// overdue returns a line about a reload that has not ended within Config.Overdue, or "". No
// other reload begins before its end.
func (r *Reloader) overdue() string {
	p := r.running.Load()
	if p == nil || time.Since(p.began) < r.cfg.Overdue {
		return ""
	}
	return fmt.Sprintf("the reload that began at %s has not ended, and no other can begin: it %s; mend the file system, command or name service that does not answer, or restart pmcd",
		p.began.Format(time.TimeOnly), p.step)
}

// LogOverdue logs a reload that is overdue. Any goroutine may call it.
func (r *Reloader) LogOverdue() {
	if late := r.overdue(); late != "" {
		r.cfg.Log.Error("{error}", "error", late, logtext.Event("reload_overdue"))
	}
}
