// Package cache assigns ids to the instances of an instance domain. It stores them
// in a file, so that an instance has the same id after a restart of the agent. It is
// to Go what pmdaCache(3) is to C, with the same file format and the same ids; it has what
// agents use most.
//
// An agent makes a Cache once
//
//	disks := cache.New(pdu.NewInDom(domain, 0), cache.Options{})
//
// and updates it each time it reads its instances:
//
//	if _, err := disks.TryLoad(); err != nil {
//		log.Print(err) // some instances have new or temporary ids
//	}
//	disks.HideAll()
//	for _, d := range found {
//		disks.Add(d.name, d)
//	}
//	if err := disks.TrySave(); err != nil {
//		log.Print(err)
//	}
//
// A Cache implements pmda.Finder.
//
// # Names
//
// The short name of an instance is the part of its name before the first blank. It
// is unique in the instance domain. An instance is found by its short name or by
// its full name, and by no other name with the same short name (pmdaCache(3),
// "INSTANCE NAME MATCHING").
//
// # Ids
//
// Ids are 0 to 2147483647, or to the limit in the file. A new instance gets the highest
// id so far plus 1. After the last id has been used, or if the file says so
// (PMDA_CACHE_REUSE), it gets the lowest free id. All this is as in C, so the same calls
// result in the same ids. Keys in the file (pmdaCacheStoreKey) are kept.
//
// If the file exists but cannot be read, for example because the process has too
// many open files, it is not overwritten. [Cache.Load] explains which ids the
// instances have then.
package cache

import (
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A State says whether an instance is currently part of the instance domain.
type State uint8

const (
	Active   State = 1 + iota // part of the instance domain (PMDA_CACHE_ACTIVE)
	Inactive                  // not part of it, but its id is kept (PMDA_CACHE_INACTIVE)
)

func (s State) String() string { return [...]string{"", "active", "inactive"}[s] }

// An Entry describes an instance in a Cache.
type Entry struct {
	Inst  int32  // id
	Name  string // full name
	State State
	Data  any // the data of Add; nil after Load
}

// entry is an Entry in the list of a Cache.
type entry struct {
	Entry
	// stamp is the time of the first save after the last Add, in seconds since 1970. It is
	// 0 before that save.
	stamp     int64
	key       string // of the file; "" if there is none
	temporary bool   // the id is temporary; see Load
}

// Options are the options of a Cache. The zero value is right for most agents.
type Options struct {
	// Dir is the directory of the file, whose name is the number of the instance
	// domain, such as "60.1". The default is $PCP_VAR_DIR/config/pmda. If
	// PCP_VAR_DIR is neither in the environment nor in pcp.conf(5), because there
	// is no pcp.conf, it is /var/lib/pcp.
	Dir string

	// Warn, if not nil, is called for each instance that Load or Save omits.
	Warn func(error)
}

// A Cache has the instances of one instance domain. It is not safe for concurrent
// use. The functions of an agent need no lock for it.
type Cache struct {
	indom pdu.InDom
	opt   Options

	byInst map[int32]*entry
	byName map[string]*entry // by short name
	list   []*entry          // entries in the maps
	sorted bool              // list is sorted by id

	reuse    bool  // a new instance gets the lowest free id, else last+1
	last     int32 // highest id so far, or -1
	max      int32 // highest id that may be assigned
	denseLen int   // list[i].Inst <= i for all i < denseLen; see nextInst

	loadErr        error // of the last Load, if the file may have ids that are unknown
	damaged        bool  // the file has lines that could not be parsed
	temporaryTried int64 // number of temporary ids tried
	loadTried      bool  // Load has succeeded, or TryLoad has called it
	lastLoad       time.Time
	saves          int // of TrySave since savesSince
	savesSince     time.Time
	open           func(path string, flag int, perm os.FileMode) (*os.File, error) // os.OpenFile, except in tests
	link           func(from, to string) error                                     // os.Link, except in tests

	dirty bool // instances differ from the file
}

// New returns an empty Cache. It panics if indom is pdu.NoInDom.
func New(indom pdu.InDom, opt Options) *Cache {
	if indom == pdu.NoInDom {
		panic("cache: no instance domain")
	}
	return &Cache{
		indom:  indom,
		opt:    opt,
		byInst: make(map[int32]*entry),
		byName: make(map[string]*entry),
		sorted: true,
		last:   -1,
		max:    math.MaxInt32,
		open:   os.OpenFile,
		link:   os.Link,
	}
}

// InDom returns the instance domain.
func (c *Cache) InDom() pdu.InDom { return c.indom }

// shortName returns the part of a name before the first blank.
func shortName(name string) string {
	short, _, _ := strings.Cut(name, " ")
	return short
}

// find returns the entry that has the short name of name, or nil. If matches is
// false, the rest of the names differs, and name can neither be found nor added.
func (c *Cache) find(name string) (e *entry, matches bool) {
	short := shortName(name)
	e = c.byName[short]
	return e, e != nil && (len(short) == len(name) || e.Name == name)
}

// Lookup returns the instance with the given id, active or not. If there is none,
// the error is PM_ERR_INST.
func (c *Cache) Lookup(inst int32) (Entry, error) {
	if e := c.byInst[inst]; e != nil {
		return e.Entry, nil
	}
	return Entry{}, pdu.ErrnoInst
}

// errDomain is -EDOM.
const errDomain = -pdu.Errno(syscall.EDOM)

// LookupName returns the instance with the given name or short name, active or not.
// If there is none, the error is PM_ERR_INST, or -EDOM if an instance has the same
// short name but another name.
//
// C PCP differs: it returns that other instance, although pmdaCache(3) has -EDOM.
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

// Each calls yield for each active instance in ascending order of ids, until yield
// returns false. yield may hide instances, but not add or load any.
func (c *Cache) Each(yield func(inst int32, name string, data any) bool) {
	c.sort()
	for _, e := range c.list {
		if e.State == Active && !yield(e.Inst, e.Name, e.Data) {
			return
		}
	}
}

// Find returns the full name and the data of an active instance.
func (c *Cache) Find(inst int32) (name string, data any, ok bool) {
	e := c.byInst[inst]
	if e == nil || e.State != Active {
		return "", nil, false
	}
	return e.Name, e.Data, true
}

// Size returns the number of active and of inactive instances.
//
// C PCP differs: PMDA_CACHE_SIZE is the number of instances ever added.
func (c *Cache) Size() (active, inactive int) {
	for _, e := range c.list {
		if e.State == Active {
			active++
		}
	}
	return active, len(c.list) - active
}

// sort sorts the list by id, if it is not sorted. Most entries are added in order.
func (c *Cache) sort() {
	if c.sorted {
		return
	}
	slices.SortFunc(c.list, func(a, b *entry) int { return int(a.Inst) - int(b.Inst) })
	c.sorted = true
}
