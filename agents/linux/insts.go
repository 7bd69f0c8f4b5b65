package linux

import (
	"errors"
	"io/fs"

	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// insts are instances that come and go and keep their ids: those of disks,
// interfaces. Each name has a T.
type insts[T any] struct {
	*cache.Cache
	h      *host
	known  map[string]*inst[T]
	turn   uint64
	seen   int // instances that there are at the moment
	loaded bool
	fresh  bool   // there is one that was not known
	brief  bool   // ids last as long as the agent
	broken string // what was wrong with the file
}

type inst[T any] struct {
	name string
	turn uint64 // when it was last there
	data T
}

func newInsts[T any](h *host, serial int) *insts[T] {
	s := &insts[T]{h: h, known: make(map[string]*inst[T])}
	s.brief = h.in != nil
	s.Cache = cache.New(pdu.NewInDom(h.domain, serial), cache.Options{Dir: h.CacheDir, Warn: s.warn})
	return s
}

// newBriefInsts returns instances that keep their ids as long as the agent is
// there: so it is in PCP with what comes and goes a lot.
func newBriefInsts[T any](h *host, serial int) *insts[T] {
	s := newInsts[T](h, serial)
	s.brief, s.loaded = true, true
	return s
}

// maxAway is how many instances of a container that have gone keep their ids:
// root in it can give names to file systems and interfaces without end.
const maxAway = 10000

// begin starts a look at what there is.
func (s *insts[T]) begin() {
	if _, away := s.Size(); s.h.in != nil && away > maxAway {
		s.CullAll()
		s.Reorg()
		clear(s.known)
	}
	if !s.loaded {
		s.loaded = true
		if _, err := s.Load(); err != nil && !errors.Is(err, fs.ErrNotExist) {
			s.warn(err)
		}
	}
	s.HideAll()
	s.turn++
	s.seen = 0
}

// add says that there is an instance, and returns what is kept of it; nil if the
// name is no good, or there already.
func (s *insts[T]) add(name []byte) *T {
	i := s.known[string(name)]
	if i == nil {
		i = &inst[T]{name: string(name)}
		if _, err := s.Add(i.name, &i.data); err != nil {
			return nil
		}
		s.known[i.name] = i
		s.fresh = true
	} else if i.turn == s.turn {
		return nil
	} else if _, err := s.Add(i.name, &i.data); err != nil {
		return nil
	}
	i.turn = s.turn
	s.seen++
	return &i.data
}

// hide says that an instance that was added is none at the moment.
func (s *insts[T]) hide(name []byte) {
	if i := s.known[string(name)]; i != nil {
		// The name is in the cache: it was added.
		_ = s.Hide(i.name)
	}
}

// end ends the look.
func (s *insts[T]) end() {
	if s.seen < len(s.known) {
		for name, i := range s.known {
			if i.turn != s.turn {
				delete(s.known, name)
			}
		}
	}
	if s.fresh && !s.brief {
		s.fresh = false
		if _, err := s.Save(); err != nil {
			s.warn(err)
		}
	}
}

// warn logs what is wrong with the file, once: without it ids last as long as
// the agent.
func (s *insts[T]) warn(err error) {
	if text := err.Error(); text != s.broken {
		s.broken = text
		s.h.Log.Warn("linux: ids of instances do not outlast the agent: " + text)
	}
}
