package proc

// insts are instances that come and go, with a T each. One that comes back has
// the id that it had, unless many others came meanwhile. Ids are not used again.
type insts[T any] struct {
	known map[string]*inst[T]
	list  []*inst[T] // those that are there, in the order that they were found
	turn  uint64
	next  int32
}

type inst[T any] struct {
	id   int32
	name string
	turn uint64 // when it was last there
	data T
}

// maxGone is how many instances are remembered beside as many as there are.
const maxGone = 1000

// begin starts a look at what there is.
func (s *insts[T]) begin() {
	s.turn++
	s.list = s.list[:0]
	if s.known == nil {
		s.known = make(map[string]*inst[T])
	}
}

// add says that there is an instance; first is false if that was said before in
// this look.
func (s *insts[T]) add(name string) (data *T, first bool) {
	i := s.known[name]
	if i == nil {
		i = &inst[T]{id: s.next, name: name}
		s.next = (s.next + 1) & (1<<31 - 1)
		s.known[name] = i
	}
	if i.turn == s.turn {
		return &i.data, false
	}
	i.turn = s.turn
	s.list = append(s.list, i)
	return &i.data, true
}

// end ends the look.
func (s *insts[T]) end() {
	if len(s.known) <= 2*len(s.list)+maxGone {
		return
	}
	for name, i := range s.known {
		if i.turn != s.turn {
			delete(s.known, name)
		}
	}
}

// Each implements pmda.Instances.
func (s *insts[T]) Each(yield func(inst int32, name string, data any) bool) {
	for _, i := range s.list {
		if !yield(i.id, i.name, &i.data) {
			return
		}
	}
}

func (s *insts[T]) size() (uint64, bool) { return uint64(len(s.list)), true }
