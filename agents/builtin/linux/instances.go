package linux

import (
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// instances come and go and keep their ids: those of disks,
// interfaces. Each name has a T.
//
// Most of the time they are the same, in the same order, as in the turn before.
// Then the cache, which has all that there ever were, is left as it is.
type instances[T any] struct {
	*cache.Cache
	h          *host
	byName     map[string]*instance[T]
	order      []*instance[T]   // that were added, one after the other
	unchanged  bool             // as far as this turn has come, they are those of the turn before
	rebuild    bool             // the next turn is not to be compared with this one
	list       []activeInstance // what Each has, if that is listed
	listValid  bool
	generation uint64
	present    int    // instances that there are at the moment
	loadIDs    bool   // there is a file of ids
	saveIDs    bool   // which new instances are written to
	fileError  string // what was wrong with the file
}

type instance[T any] struct {
	name       string
	generation uint64 // when it was last there
	data       T
}

// An activeInstance is one that the cache has as such.
type activeInstance struct {
	id   int32
	name string
	data any
}

func newInstances[T any](h *host, serial int) *instances[T] {
	s := &instances[T]{h: h, byName: make(map[string]*instance[T]), rebuild: true, loadIDs: true, saveIDs: h.container == nil}
	s.Cache = cache.New(pdu.NewInDom(h.domain, serial), cache.Options{Dir: h.CacheDir, Warn: s.warn})
	return s
}

// newUnsavedInstances returns instances that keep their ids as long as the agent is
// there: so it is in PCP with what comes and goes a lot.
func newUnsavedInstances[T any](h *host, serial int) *instances[T] {
	s := newInstances[T](h, serial)
	s.loadIDs, s.saveIDs = false, false
	return s
}

// maxInactive is how many instances of a container that have gone keep their ids:
// root in it can give names to file systems and interfaces without end.
const maxInactive = 10000

// begin starts a look at what there is.
func (s *instances[T]) begin() {
	if s.h.container != nil {
		if _, inactive := s.Size(); inactive > maxInactive {
			s.CullAll()
			s.Reorg()
			clear(s.byName)
			s.rebuild = true
		}
	}
	if s.loadIDs {
		loaded, err := s.TryLoad()
		if err != nil {
			s.warn(err)
		}
		if loaded {
			s.rebuild = true // ids may have changed
		}
	}
	s.generation++
	s.present, s.unchanged = 0, true
	if s.rebuild {
		s.rebuild = false
		s.markChanged()
	}
}

// markChanged is called when this turn is seen to be different from the one before:
// the cache is to have those that were added in it.
func (s *instances[T]) markChanged() {
	s.unchanged, s.listValid = false, false
	s.order = s.order[:s.present]
	s.HideAll()
	for _, i := range s.order {
		// They were added before.
		_, _ = s.Add(i.name, &i.data)
	}
}

// fileDue reports whether the file of ids is to be read or written now, so that a
// look is needed even if the instances are the same.
func (s *instances[T]) fileDue() bool { return s.loadIDs && s.LoadDue() || s.saveIDs && s.SaveDue() }

// add says that there is an instance, and returns what is kept of it; nil if the
// name is no good, or there already.
func (s *instances[T]) add(name []byte) *T {
	if s.unchanged {
		if s.present < len(s.order) && s.order[s.present].name == string(name) {
			i := s.order[s.present]
			i.generation = s.generation
			s.present++
			return &i.data
		}
		s.markChanged()
	}
	i := s.byName[string(name)]
	if i == nil {
		i = &instance[T]{name: string(name)}
		if _, err := s.Add(i.name, &i.data); err != nil {
			return nil
		}
		s.byName[i.name] = i
	} else if i.generation == s.generation {
		return nil
	} else if _, err := s.Add(i.name, &i.data); err != nil {
		return nil
	}
	i.generation = s.generation
	s.order = append(s.order, i)
	s.present++
	return &i.data
}

// hide says that an instance that was added is none at the moment.
func (s *instances[T]) hide(name []byte) {
	if s.unchanged {
		s.markChanged()
	}
	if i := s.byName[string(name)]; i != nil {
		// The name is in the cache: it was added.
		_ = s.Hide(i.name)
		s.rebuild, s.listValid = true, false
	}
}

// end ends the look.
func (s *instances[T]) end() {
	if s.unchanged && s.present < len(s.order) {
		s.markChanged()
	}
	if s.present < len(s.byName) {
		for name, i := range s.byName {
			if i.generation != s.generation {
				delete(s.byName, name)
			}
		}
	}
	if s.saveIDs {
		if err := s.TrySave(); err != nil {
			s.warn(err)
		}
	}
}

// Each implements pmda.Instances.
func (s *instances[T]) Each(yield func(inst int32, name string, data any) bool) {
	if !s.listValid {
		s.list, s.listValid = s.list[:0], true
		s.Cache.Each(func(id int32, name string, data any) bool {
			s.list = append(s.list, activeInstance{id, name, data})
			return true
		})
	}
	for i := range s.list {
		if a := &s.list[i]; !yield(a.id, a.name, a.data) {
			return
		}
	}
}

// warn logs what is wrong with the file, once: as long as it cannot be read or
// written, ids last as long as the agent.
func (s *instances[T]) warn(err error) {
	if text := err.Error(); text != s.fileError {
		s.fileError = text
		s.h.Log.Warn("linux: ids of instances do not outlast the agent: " + text)
	}
}
