// Package ids has instance domains whose ids are saved in a file, so that they stay the same
// at a restart. It is package cache with warnings in the log of an agent.
package ids

import (
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// Saved is an instance domain whose ids are saved. To update it, call Begin, Add for each
// instance that exists, and End.
type Saved struct {
	*cache.Cache
	warnings Warnings
}

// New returns an empty instance domain. dir is the directory of the file, see [cache.Options].
// log gets warnings about the file; it has the fields of the agent.
func New(indom pdu.InDom, dir string, log *slog.Logger) *Saved {
	s := &Saved{warnings: Warnings{Log: log}}
	s.Cache = cache.New(indom, cache.Options{Dir: dir, Warn: s.warnings.Warn})
	return s
}

// maxInactive is the number of instances that no longer exist and keep their ids. Without a
// limit, memory and file grow with all names there ever were, as those of PCP's agents do.
const maxInactive = 10_000

// Begin reads the file, if that is not done, and hides all instances.
func (s *Saved) Begin() {
	if _, err := s.TryLoad(); err != nil {
		s.warnings.Warn(err)
	}
	s.HideAll()
}

// End saves the ids of new instances. It does not warn if the agent may not write the file, as
// where a user tries pmcd.
func (s *Saved) End() {
	s.LimitInactive(maxInactive)
	if err := s.TrySave(); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
		s.warnings.Warn(err)
	}
}

// Warnings are those about a file of ids.
type Warnings struct {
	Log  *slog.Logger // with the fields of the agent
	last string

	hour  time.Time // when it began
	lines int       // in it
}

// maxLines is how many lines Warnings logs in an hour. Users can cause warnings, by mounts with
// names that cannot be saved.
const maxLines = 10

// Warn logs an error of the file, unless it is the same as the last one, or there were too many.
func (w *Warnings) Warn(err error) {
	text, now := err.Error(), time.Now()
	if now.Sub(w.hour) >= time.Hour {
		w.hour, w.lines = now, 0
	}
	if text != w.last && w.lines < maxLines {
		w.last = text
		if w.lines++; w.lines == maxLines {
			text += "; more lines of this kind are left out for an hour"
		}
		w.Log.Warn("{agent}: cannot use the file of instance ids, ids may change when the agent restarts: {error}", "error", text)
	}
}
