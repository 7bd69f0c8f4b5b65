package linux

import (
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// insts are instances that come and go and keep their ids: those of disks,
// interfaces. Each name has a T.
//
// Most of the time they are the same, in the same order, as in the turn before.
// Then the cache, which has all that there ever were, is left as it is.
type insts[T any] struct {
	*cache.Cache
	h      *host
	known  map[string]*inst[T]
	order  []*inst[T] // that were added, one after the other
	same   bool       // as far as this turn has come, they are those of the turn before
	anew   bool       // the next turn is not to be compared with this one
	active []active   // what Each has, if that is listed
	listed bool
	turn   uint64
	seen   int    // instances that there are at the moment
	load   bool   // there is a file of ids
	save   bool   // which new instances are written to
	broken string // what was wrong with the file
}

type inst[T any] struct {
	name string
	turn uint64 // when it was last there
	data T
}

// An active instance is one that the cache has as such.
type active struct {
	id   int32
	name string
	data any
}

func newInsts[T any](h *host, serial int) *insts[T] {
	s := &insts[T]{h: h, known: make(map[string]*inst[T]), anew: true, load: true, save: h.in == nil}
	s.Cache = cache.New(pdu.NewInDom(h.domain, serial), cache.Options{Dir: h.CacheDir, Warn: s.warn})
	return s
}

// newBriefInsts returns instances that keep their ids as long as the agent is
// there: so it is in PCP with what comes and goes a lot.
func newBriefInsts[T any](h *host, serial int) *insts[T] {
	s := newInsts[T](h, serial)
	s.load, s.save = false, false
	return s
}

// maxAway is how many instances of a container that have gone keep their ids:
// root in it can give names to file systems and interfaces without end.
const maxAway = 10000

// begin starts a look at what there is.
func (s *insts[T]) begin() {
	if s.h.in != nil {
		if _, away := s.Size(); away > maxAway {
			s.CullAll()
			s.Reorg()
			clear(s.known)
			s.anew = true
		}
	}
	if s.load {
		loaded, err := s.TryLoad()
		if err != nil {
			s.warn(err)
		}
		if loaded {
			s.anew = true // ids may have changed
		}
	}
	s.turn++
	s.seen, s.same = 0, true
	if s.anew {
		s.anew = false
		s.differ()
	}
}

// differ is called when this turn is seen to be different from the one before:
// the cache is to have those that were added in it.
func (s *insts[T]) differ() {
	s.same, s.listed = false, false
	s.order = s.order[:s.seen]
	s.HideAll()
	for _, i := range s.order {
		// They were added before.
		_, _ = s.Add(i.name, &i.data)
	}
}

// fileDue reports whether the file of ids is to be read or written now, so that a
// look is needed even if the instances are the same.
func (s *insts[T]) fileDue() bool { return s.load && s.LoadDue() || s.save && s.SaveDue() }

// add says that there is an instance, and returns what is kept of it; nil if the
// name is no good, or there already.
func (s *insts[T]) add(name []byte) *T {
	if s.same {
		if s.seen < len(s.order) && s.order[s.seen].name == string(name) {
			i := s.order[s.seen]
			i.turn = s.turn
			s.seen++
			return &i.data
		}
		s.differ()
	}
	i := s.known[string(name)]
	if i == nil {
		i = &inst[T]{name: string(name)}
		if _, err := s.Add(i.name, &i.data); err != nil {
			return nil
		}
		s.known[i.name] = i
	} else if i.turn == s.turn {
		return nil
	} else if _, err := s.Add(i.name, &i.data); err != nil {
		return nil
	}
	i.turn = s.turn
	s.order = append(s.order, i)
	s.seen++
	return &i.data
}

// hide says that an instance that was added is none at the moment.
func (s *insts[T]) hide(name []byte) {
	if s.same {
		s.differ()
	}
	if i := s.known[string(name)]; i != nil {
		// The name is in the cache: it was added.
		_ = s.Hide(i.name)
		s.anew, s.listed = true, false
	}
}

// end ends the look.
func (s *insts[T]) end() {
	if s.same && s.seen < len(s.order) {
		s.differ()
	}
	if s.seen < len(s.known) {
		for name, i := range s.known {
			if i.turn != s.turn {
				delete(s.known, name)
			}
		}
	}
	if s.save {
		if err := s.TrySave(); err != nil {
			s.warn(err)
		}
	}
}

// Each implements pmda.Instances.
func (s *insts[T]) Each(yield func(inst int32, name string, data any) bool) {
	if !s.listed {
		s.active, s.listed = s.active[:0], true
		s.Cache.Each(func(id int32, name string, data any) bool {
			s.active = append(s.active, active{id, name, data})
			return true
		})
	}
	for i := range s.active {
		if a := &s.active[i]; !yield(a.id, a.name, a.data) {
			return
		}
	}
}

// warn logs what is wrong with the file, once: as long as it cannot be read or
// written, ids last as long as the agent.
func (s *insts[T]) warn(err error) {
	if text := err.Error(); text != s.broken {
		s.broken = text
		s.h.Log.Warn("linux: ids of instances do not outlast the agent: " + text)
	}
}
