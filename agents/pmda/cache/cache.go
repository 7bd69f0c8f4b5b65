// Package cache keeps instance domains whose instances come and go, and gives
// each instance an id of its own that outlives the agent: what pmdaCache(3) is
// to PMDAs in C. The file is the same, and so are the ids:
//
//	disks := cache.New(pdu.NewInDom(domain, 0), cache.Options{})
//
// and, each time that the disks are looked at,
//
//	if _, err := disks.TryLoad(); err != nil {
//		log.Print(err) // some ids are new, or temporary
//	}
//	disks.HideAll()
//	for _, d := range found {
//		disks.Add(d.name, d)
//	}
//	disks.TrySave()
//
// A Cache is one of the Instances of package pmda.
//
// # Names
//
// The part of a name up to its first blank, the short name, is unique in an
// instance domain. A short name finds the instance that has it; another name
// has to be equal to that of the instance (pmdaCache(3), "INSTANCE NAME
// MATCHING").
//
// # Ids
//
// Ids are 0 to 2147483647, or less, see [Cache.Resize]. A new instance gets the
// highest id so far plus 1. Once the last one is in use, or after [Cache.Reuse]
// or [Cache.AddKey], it gets the lowest one that is free. An id that was culled
// is not free at once, and takes some memory, until the 65th, 129th, 257th ...
// instance is added or [Cache.Reorg] is called. All this is as in C, so that the
// same calls give the same ids.
//
// A file that is there and cannot be read, as when the process has no
// descriptor left, is never overwritten: see [Cache.Load] for the ids that
// instances have meanwhile.
package cache

import (
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A State says whether an instance is there at the moment.
type State uint8

const (
	culled   State = iota
	Active         // part of the instance domain (PMDA_CACHE_ACTIVE)
	Inactive       // hidden, not forgotten (PMDA_CACHE_INACTIVE)
)

func (s State) String() string { return [...]string{"culled", "active", "inactive"}[s] }

// An Entry is what a Cache knows of an instance.
type Entry struct {
	Inst  int32  // the id
	Name  string // external name
	Key   string // bytes given to AddKey; "" if none
	State State
	Data  any // the author's, given to Add or AddKey; nil after Load
}

// entry is an Entry and when it was last active: the time of the first save
// after that, in seconds since 1970; 0 if that is yet to come.
type entry struct {
	Entry
	stamp     int64
	temporary bool // the id is, see Load
}

// Options are how a Cache differs from an ordinary one.
type Options struct {
	// Dir has the file, which is named after the instance domain ("60.1").
	// "" is $PCP_VAR_DIR/config/pmda, where PCP_VAR_DIR is in the environment
	// or in pcp.conf(5); if there is neither it is /var/lib/pcp.
	Dir string

	// Strings makes it a table of strings rather than an instance domain: blanks
	// in names mean nothing, and a name may be empty (PMDA_CACHE_STRINGS).
	Strings bool

	// Warn, if not nil, is told what Load and Save have left out.
	Warn func(error)
}

// A Cache holds the instances of one instance domain. It is used by one
// goroutine at a time, as an agent is.
type Cache struct {
	indom pdu.InDom
	opt   Options

	byInst map[int32]*entry
	byName map[string]*entry // by short name
	list   []*entry          // those of the maps and culled ones whose id is not free yet
	sorted bool              // list is in order of ids

	reuse    bool  // ids are the lowest free ones; else last+1
	last     int32 // highest id there ever was, or -1
	max      int32 // highest id that may be given
	denseLen int   // list[i].Inst <= i for all i below; see nextInst

	inserted int // entries ever inserted
	reorgAt  int // how many of them make culled ids free, see insert

	loadErr        error // of the last Load, if the file may have ids that are not here
	damaged        bool  // the file has lines that are not here
	temporaryTried int64 // how many temporary ids were tried
	loadTried      bool  // Load was called
	lastLoad       time.Time
	saveFailed     bool // the last TrySave has failed
	lastSave       time.Time
	open           func(path string, flag int, perm os.FileMode) (*os.File, error) // os.OpenFile, but for tests
	link           func(from, to string) error                                     // os.Link, but for tests

	dirtyInst  bool // instances are not as in the file
	dirtyStamp bool // stamps or max are not as in the file
}

// New returns an empty Cache. It panics if indom is pdu.NoInDom.
func New(indom pdu.InDom, opt Options) *Cache {
	if indom == pdu.NoInDom {
		panic("cache: no instance domain")
	}
	return &Cache{
		indom:   indom,
		opt:     opt,
		byInst:  make(map[int32]*entry),
		byName:  make(map[string]*entry),
		sorted:  true,
		last:    -1,
		max:     math.MaxInt32,
		open:    os.OpenFile,
		link:    os.Link,
		reorgAt: 64,
	}
}

// InDom returns the instance domain.
func (c *Cache) InDom() pdu.InDom { return c.indom }

// shortName returns the part of a name that is unique.
func (c *Cache) shortName(name string) string {
	if i := strings.IndexByte(name, ' '); i >= 0 && !c.opt.Strings {
		return name[:i]
	}
	return name
}

// find returns the entry that has the short name of name, or nil. If matches is
// false the rest differs, and name can be neither found nor added.
func (c *Cache) find(name string) (e *entry, matches bool) {
	short := c.shortName(name)
	e = c.byName[short]
	return e, e != nil && (len(short) == len(name) || e.Name == name)
}

// Lookup returns the instance with an id, active or not; PM_ERR_INST.
func (c *Cache) Lookup(inst int32) (Entry, error) {
	if e := c.byInst[inst]; e != nil {
		return e.Entry, nil
	}
	return Entry{}, pdu.ErrnoInst
}

// errDomain is -EDOM.
const errDomain = -pdu.Errno(syscall.EDOM)

// LookupName returns the instance that a name or short name finds, active or
// not; PM_ERR_INST. The error is -EDOM if there is another instance with that
// short name.
//
// C differs: the manual page has -EDOM too, but the other instance is found.
func (c *Cache) LookupName(name string) (Entry, error) {
	switch e, matches := c.find(name); {
	case e == nil:
		return Entry{}, pdu.ErrnoInst
	case !matches:
		return Entry{}, errDomain
	default:
		return e.Entry, nil
	}
}

// LookupKey returns the instance with a key, active or not; PM_ERR_INST. If
// AddKey was given none, the name is the key. It looks at one instance after the
// other.
func (c *Cache) LookupKey(key []byte) (Entry, error) {
	c.sort()
	for _, e := range c.list {
		if e.State != culled && e.Key != "" && e.Key == string(key) {
			return e.Entry, nil
		}
	}
	return Entry{}, pdu.ErrnoInst
}

// Active returns the ids of active instances in ascending order. Instances
// may be hidden and culled in the loop, but not added or loaded.
func (c *Cache) Active() iter.Seq[int32] {
	return func(yield func(int32) bool) {
		c.Each(func(inst int32, _ string, _ any) bool { return yield(inst) })
	}
}

// Each calls yield for each active instance, in ascending order of ids, until
// it returns false. Instances may be hidden and culled meanwhile, but not added
// or loaded.
func (c *Cache) Each(yield func(inst int32, name string, data any) bool) {
	c.sort()
	for _, e := range c.list {
		if e.State == Active && !yield(e.Inst, e.Name, e.Data) {
			return
		}
	}
}

// Size returns how many instances there are of each state.
//
// C differs: PMDA_CACHE_SIZE counts those that were ever added.
func (c *Cache) Size() (active, inactive int) {
	for _, e := range c.list {
		if e.State == Active {
			active++
		}
	}
	return active, len(c.byInst) - active
}

// sort puts the list in order. Most entries are added at its end, in order.
func (c *Cache) sort() {
	if c.sorted {
		return
	}
	slices.SortFunc(c.list, func(a, b *entry) int { return int(a.Inst) - int(b.Inst) })
	c.sorted = true
}
