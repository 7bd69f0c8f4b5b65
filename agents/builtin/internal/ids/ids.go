// Package ids has instance domains whose ids are saved in a file, so that they stay the same
// at a restart. It is package cache with warnings in the log of an agent.
package ids

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// Saved is an instance domain whose ids are saved. To update it, call Begin, Add for each
// instance that exists, and End.
type Saved struct {
	*cache.Cache
	log         *slog.Logger
	lastWarning string
}

// New returns an empty instance domain. dir is the directory of the file, see [cache.Options].
// log gets warnings about the file; it has the fields of the agent.
func New(indom pdu.InDom, dir string, log *slog.Logger) *Saved {
	s := &Saved{log: log}
	s.Cache = cache.New(indom, cache.Options{Dir: dir, Warn: s.warn})
	return s
}

// maxInactive is the number of instances that no longer exist and keep their ids. Without a
// limit, memory and file grow with all names there ever were, as those of PCP's agents do.
const maxInactive = 10_000

// Begin reads the file, if that is not done, and hides all instances.
func (s *Saved) Begin() {
	if _, err := s.TryLoad(); err != nil {
		s.warn(err)
	}
	s.HideAll()
}

// End saves the ids of new instances. It does not warn if the agent may not write the file, as
// where a user tries pmcd.
func (s *Saved) End() {
	s.LimitInactive(maxInactive)
	if err := s.TrySave(); err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
		s.warn(err)
	}
}

// warn logs an error of the file, unless it is the same as the last one.
func (s *Saved) warn(err error) {
	if text := err.Error(); text != s.lastWarning {
		s.lastWarning = text
		s.log.Warn("{agent}: ids of instances may change at a restart: {error}", "error", text)
	}
}
