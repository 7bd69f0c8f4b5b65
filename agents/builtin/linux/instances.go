package linux

import (
	"github.com/gopcp/pmcd/agents/builtin/internal/ids"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// instances is an instance domain whose instances come and go, and keep their ids,
// such as disks or interfaces. Each instance has a T.
type instances[T any] struct{ *instanceSet }

// An instanceSet is what instances of all types have. It embeds no Cache: the compiler would make
// some 80 functions for each of the types.
//
// A refresh is begin, add for each instance that exists, and end. If the request ends
// meanwhile, add adds no more instances, and the next refresh corrects that. Usually the
// instances are the same, in the same order, as in the refresh before. Then the
// cache, which has all instances that ever existed, is not touched.
type instanceSet struct {
	cache      *cache.Cache
	h          *host
	newData    func() any // of a new instance
	byName     map[string]*instance
	order      []*instance      // in the order of add
	unchanged  bool             // so far, this refresh had the same instances as the one before
	rebuild    bool             // the next refresh must update the cache
	list       []activeInstance // of the cache, for Each
	listValid  bool
	generation uint64 // number of the refresh
	present    int    // number of instances that exist now
	loadIDs    bool   // ids are read from a file
	saveIDs    bool   // new instances are written to it
	warnings   ids.Warnings
}

var _ pmda.Finder = (*instanceSet)(nil)

type instance struct {
	name       string
	generation uint64 // of the last refresh that had it
	data       any    // a *T
}

// An activeInstance is an active entry of the cache.
type activeInstance struct {
	id   int32
	name string
	data any
}

func newInstances[T any](h *host, serial int) *instances[T] {
	return &instances[T]{newInstanceSet(h, serial, func() any { return new(T) })}
}

func newInstanceSet(h *host, serial int, newData func() any) *instanceSet {
	s := &instanceSet{h: h, warnings: ids.Warnings{Log: h.Log}, newData: newData, byName: make(map[string]*instance), rebuild: true, loadIDs: true, saveIDs: h.container == nil}
	s.cache = cache.New(pdu.NewInDom(h.domain, serial), cache.Options{Dir: h.CacheDir, Warn: s.warnings.Warn})
	return s
}

// newUnsavedInstances returns instances whose ids last as long as the agent. As in
// PCP, instances that come and go often are not saved in a file.
func newUnsavedInstances[T any](h *host, serial int) *instances[T] {
	s := newInstances[T](h, serial)
	s.loadIDs, s.saveIDs = false, false
	return s
}

// maxInactive is the number of inactive instances that keep their ids. Interfaces and
// mounts of containers come and go with new names for as long as the host runs, and root
// in a container can create any number of them.
//
// C pmdalinux differs: it keeps all.
const maxInactive = 10000

// begin starts a refresh.
func (s *instanceSet) begin() {
	if s.loadIDs {
		loaded, err := s.cache.TryLoad()
		if err != nil {
			s.warnings.Warn(err)
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

// markChanged is called at the first difference from the refresh before. It makes
// the instances that this refresh has added so far the active ones of the cache.
func (s *instanceSet) markChanged() {
	s.unchanged, s.listValid = false, false
	s.order = s.order[:s.present]
	s.cache.HideAll()
	for _, i := range s.order {
		// No error: the cache accepted the name before.
		_, _ = s.cache.Add(i.name, i.data)
	}
}

// fileDue reports whether the file of ids should be read or written now. Then a
// refresh is necessary even if the instances are the same.
func (s *instanceSet) fileDue() bool {
	return s.loadIDs && s.cache.LoadDue() || s.saveIDs && s.cache.SaveDue()
}

// all calls yield with the T of each instance that exists.
func (s *instances[T]) all(yield func(*T) bool) {
	for _, i := range s.byName {
		if !yield(i.data.(*T)) {
			return
		}
	}
}

// get returns the T of an instance, or nil if the name is not one's.
func (s *instances[T]) get(name string) *T {
	if i := s.byName[name]; i != nil {
		return i.data.(*T)
	}
	return nil
}

// add adds an instance that exists, and returns its T. It returns nil if the name
// is not valid, or was added in this refresh already, or if the request has ended.
func (s *instances[T]) add(name []byte) *T {
	data, _ := s.instanceSet.add(name).(*T)
	return data
}

func (s *instanceSet) add(name []byte) any {
	if s.h.ended() != nil {
		return nil
	}
	if s.unchanged {
		if s.present < len(s.order) && s.order[s.present].name == string(name) {
			i := s.order[s.present]
			i.generation = s.generation
			s.present++
			return i.data
		}
		s.markChanged()
	}
	i := s.byName[string(name)]
	if i == nil {
		i = &instance{name: string(name), data: s.newData()}
		if _, err := s.cache.Add(i.name, i.data); err != nil {
			return nil
		}
		s.byName[i.name] = i
	} else if i.generation == s.generation {
		return nil
	} else if _, err := s.cache.Add(i.name, i.data); err != nil {
		return nil
	}
	i.generation = s.generation
	s.order = append(s.order, i)
	s.present++
	return i.data
}

// hide makes an instance that was added inactive.
func (s *instanceSet) hide(name []byte) {
	if s.unchanged {
		s.markChanged()
	}
	if i := s.byName[string(name)]; i != nil {
		// No error: add has put the name into the cache.
		_ = s.cache.Hide(i.name)
		s.rebuild, s.listValid = true, false
	}
}

// end ends a refresh.
func (s *instanceSet) end() {
	if s.h.ended() != nil {
		return // instances may be missing
	}
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
	if s.present > 0 { // else the file may not have been there for a moment
		s.cache.LimitInactive(maxInactive)
	}
	if s.saveIDs {
		if err := s.cache.TrySave(); err != nil {
			s.warnings.Warn(err)
		}
	}
}

// Find implements pmda.Finder.
func (s *instanceSet) Find(id int32) (name string, data any, ok bool) { return s.cache.Find(id) }

// Each implements pmda.Instances.
func (s *instanceSet) Each(yield func(inst int32, name string, data any) bool) {
	if !s.listValid {
		s.list, s.listValid = s.list[:0], true
		s.cache.Each(func(id int32, name string, data any) bool {
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
