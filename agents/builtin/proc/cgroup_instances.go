package proc

// instances are instances that come and go, with a T each. An instance that comes
// back has its old id, unless many others have come meanwhile (see maxAbsent). An
// id is not used for another instance.
type instances[T any] struct {
	known  map[string]*instance[T]
	list   []*instance[T] // those of this scan, in the order in which they were found
	scan   uint64
	nextID int32
}

type instance[T any] struct {
	id       int32
	name     string
	lastScan uint64 // the last scan that found it
	data     T
}

// maxAbsent bounds the instances that are remembered although they are absent: at
// most this number plus the number of those present.
const maxAbsent = 1000

// beginScan starts a new list of the instances that are present.
func (s *instances[T]) beginScan() {
	s.scan++
	s.list = s.list[:0]
	if s.known == nil {
		s.known = make(map[string]*instance[T])
	}
}

// add adds an instance to the list. first is false if this scan has added it
// before.
func (s *instances[T]) add(name string) (data *T, first bool) {
	i := s.known[name]
	if i == nil {
		i = &instance[T]{id: s.nextID, name: name}
		s.nextID = (s.nextID + 1) & (1<<31 - 1)
		s.known[name] = i
	}
	if i.lastScan == s.scan {
		return &i.data, false
	}
	i.lastScan = s.scan
	s.list = append(s.list, i)
	return &i.data, true
}

// endScan completes the list. It is not called for a scan that ends early.
func (s *instances[T]) endScan() {
	if len(s.known) <= 2*len(s.list)+maxAbsent {
		return
	}
	for name, i := range s.known {
		if i.lastScan != s.scan {
			delete(s.known, name)
		}
	}
}

// Each implements pmda.Instances.
func (s *instances[T]) Each(yield func(inst int32, name string, data any) bool) {
	for _, i := range s.list {
		if !yield(i.id, i.name, &i.data) {
			return
		}
	}
}

func (s *instances[T]) count() (uint64, bool) { return uint64(len(s.list)), true }
