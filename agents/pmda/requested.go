package pmda

import (
	"cmp"
	"slices"

	"github.com/gopcp/pmcd/pdu"
)

// A Finder is Instances that find an instance by its id, and whose Each visits them in
// ascending order of ids. A fetch of a few instances calls Find, and Each is not called:
// it does not take longer if there are many others. A cache.Cache is a Finder. A type that
// embeds one and has its own Each needs its own Find, too.
type Finder interface {
	Instances
	// Find returns the name and the data that Each passes to yield for an instance.
	// ok is false if Each does not visit it.
	Find(inst int32) (name string, data any, ok bool)
}

// requested is what the client of a fetch requests of an instance domain. All metrics
// of the instance domain share it.
type requested struct {
	a      *agent
	indom  pdu.InDom
	insts  Instances
	finder Finder // insts, or nil if that is not a Finder
	visit  func(inst int32, name string, data any) bool

	requestNumber uint64 // of the fetch that the following is for
	profile       pdu.InDomProfile
	all           bool // profile selects all instances
	few           bool // profile names the instances that it selects, at most maxListed

	// If few: the instances that the profile names and that exist.
	list        []instance
	listed      bool
	sourcesRead uint64 // agent.sourcesRead when list was made
	visited     int    // instances that visit was called for
}

// An instance is what Each passes to yield.
type instance struct {
	inst  int32
	index int // position in Each, or notCounted
	name  string
	data  any
}

// notCounted is the index of an instance that Find has returned, until Value.Index needs
// it.
const notCounted = -2

// maxListed is the number of instances up to which they are listed. The memory for the
// list is kept, and a profile can name thousands of instances of a domain that has a few.
const maxListed = 1000

func newRequested(a *agent, id pdu.InDom, insts Instances) *requested {
	r := &requested{a: a, indom: id, insts: insts}
	switch insts := insts.(type) {
	case Finder:
		r.finder = insts
	case List:
		if slices.IsSortedFunc(insts, compareInsts) {
			r.finder = sortedList{insts}
		}
	}
	r.visit = r.listIncluded
	return r
}

// begin sets the profile, unless an earlier metric of the fetch has.
func (r *requested) begin() {
	a := r.a
	if r.requestNumber == a.requestNumber {
		return
	}
	r.requestNumber, r.listed = a.requestNumber, false
	r.profile = a.req.Profile.For(r.indom)
	r.all = r.profile.All()
	r.few = r.profile.Exclude && len(r.profile.Insts) <= maxListed
	a.fetch.requested = append(a.fetch.requested, r)
}

// reset drops pointers to memory of the profile and of the author.
func (r *requested) reset() {
	r.profile = pdu.InDomProfile{}
	clear(r.list)
	r.list = r.list[:0]
}

// none reports whether the profile selects no instance.
func (r *requested) none() bool { return r.profile.Exclude && len(r.profile.Insts) == 0 }

// instances returns the instances that the profile selects, in the order of Each. It is
// for few.
func (r *requested) instances() []instance {
	if r.listed && r.sourcesRead == r.a.sourcesRead {
		return r.list // no Source that was read since can have changed them
	}
	r.listed, r.sourcesRead = true, r.a.sourcesRead
	r.list = r.list[:0]
	if r.finder == nil {
		r.visited = 0
		r.insts.Each(r.visit)
		return r.list
	}
	ids := r.profile.Insts
	if !slices.IsSorted(ids) {
		ids = append(r.a.fetch.insts[:0], ids...)
		slices.Sort(ids)
		r.a.fetch.insts = ids
	}
	for i, inst := range ids {
		if i > 0 && inst == ids[i-1] {
			continue
		}
		if name, data, ok := r.finder.Find(inst); ok {
			r.list = append(r.list, instance{inst, notCounted, name, data})
		}
		if r.a.req.Err() != nil {
			break
		}
	}
	return r.list
}

// listIncluded is called for each instance.
func (r *requested) listIncluded(inst int32, name string, data any) bool {
	if r.profile.Includes(inst) {
		r.list = append(r.list, instance{inst, r.visited, name, data})
	}
	r.visited++
	return r.a.req.Err() == nil
}

// count sets the index of each instance in list.
func (r *requested) count() {
	n, index := 0, 0
	r.insts.Each(func(inst int32, _ string, _ any) bool {
		if n < len(r.list) && r.list[n].inst == inst {
			r.list[n].index = index
			n++
		}
		index++
		_ = r.a.req.Err() // a function that uses the index needs a valid one
		return n < len(r.list)
	})
}

// A sortedList is a List whose ids ascend.
type sortedList struct{ List }

func (l sortedList) Find(inst int32) (name string, data any, ok bool) {
	i, ok := slices.BinarySearchFunc(l.List, pdu.Inst{ID: inst}, compareInsts)
	if !ok {
		return "", nil, false
	}
	return l.List[i].Name, nil, true
}

func compareInsts(a, b pdu.Inst) int { return cmp.Compare(a.ID, b.ID) }
