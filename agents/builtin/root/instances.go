package root

import "slices"

// instances are the instances of the containers. As with pmdaroot, ids begin at 0 at
// each start of the agent, in the order in which containers are found.
type instances struct {
	ids  map[string]int32
	next int32
	list []instance // in ascending order of ids
}

type instance struct {
	id int32
	*container
}

// maxInactive is the number of containers that are gone whose ids are remembered.
const maxInactive = 10000

// set sets the containers.
func (s *instances) set(list []*container) {
	if s.ids == nil {
		s.ids = make(map[string]int32)
	}
	s.list = s.list[:0]
	for _, c := range list {
		id, ok := s.ids[c.id]
		if !ok {
			id = s.next
			s.ids[c.id] = id
			s.next++
		}
		s.list = append(s.list, instance{id, c})
	}
	slices.SortFunc(s.list, func(a, b instance) int { return int(a.id) - int(b.id) })
	if len(s.ids) > len(s.list)+maxInactive {
		clear(s.ids)
		for _, i := range s.list {
			s.ids[i.container.id] = i.id
		}
	}
}

// Each implements pmda.Instances.
func (s *instances) Each(yield func(inst int32, name string, data any) bool) {
	for _, i := range s.list {
		if !yield(i.id, i.container.id, i.container) {
			return
		}
	}
}

// Find implements pmda.Finder.
func (s *instances) Find(inst int32) (name string, data any, ok bool) {
	n, ok := slices.BinarySearchFunc(s.list, inst, func(i instance, id int32) int { return int(i.id) - int(id) })
	if !ok {
		return "", nil, false
	}
	return s.list[n].container.id, s.list[n].container, true
}
