package cache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A run performs the same operations on a Cache and on one of pmdaCache(3).
type run struct {
	*testing.T
	p      *peer
	r      *rand.Rand
	c      *Cache
	serial int
	names  []string
	start  int64 // later stamps are from this run
	warned bool
	log    []string
	ops    map[string]int
}

// errStop ends a run when the two caches can no longer be compared.
var errStop = errors.New("stop")

// codeOf returns the result of an operation as the peer prints it.
func codeOf[N int | int32](n N, err error) string {
	if err != nil {
		return strconv.Itoa(int(pdu.ErrnoOf(err)))
	}
	return strconv.Itoa(int(n))
}

// stateCode returns the value of PMDA_CACHE_ACTIVE or PMDA_CACHE_INACTIVE.
func stateCode(s State) int {
	if s == Active {
		return 8
	}
	return 9
}

// entryOf returns an Entry as the peer prints it.
func entryOf(e Entry, err error, name bool) string {
	switch {
	case err != nil:
		return codeOf(0, err)
	case name:
		return fmt.Sprintf("%d %d %d %s", stateCode(e.State), e.Inst, dataOf(e), e.Name)
	}
	return fmt.Sprintf("%d %d %d", stateCode(e.State), e.Inst, dataOf(e))
}

func dataOf(e Entry) int {
	n, _ := e.Data.(int)
	return n
}

// compare sends an operation to the peer and compares its result with ours.
func (r *run) compare(ours, op, args string) {
	r.Helper()
	line := strings.TrimSpace(fmt.Sprintf("%s %d %s", op, r.serial, args))
	theirs := r.p.do(r.T, line)
	r.log = append(r.log, line+" = "+ours)
	r.ops[op]++
	if ours != theirs {
		r.Fatalf("the result of C is %s\n%s", theirs, strings.Join(r.log, "\n"))
	}
}

// compareFiles compares the two files. All stamps of this run count as equal.
func (r *run) compareFiles() {
	r.Helper()
	read := func(dir string) string {
		b, err := os.ReadFile(filepath.Join(dir, r.c.indom.String()))
		if err != nil {
			r.Fatal(err)
		}
		lines := strings.SplitAfter(string(b), "\n")
		for i, line := range lines {
			inst, rest, _ := strings.Cut(line, " ")
			stamp, rest, _ := strings.Cut(rest, " ")
			if n, err := strconv.ParseInt(stamp, 10, 64); i > 0 && err == nil && n >= r.start {
				lines[i] = inst + " NOW " + rest
			}
		}
		return strings.Join(lines, "")
	}
	if ours, theirs := read(r.c.opt.Dir), read(r.p.dir); ours != theirs {
		r.Fatalf("our file\n%sC's\n%s%s", ours, theirs, strings.Join(r.log, "\n"))
	}
}

// step performs a random operation. It does nothing if C is known to do it wrong.
func (r *run) step() error {
	c, name, data := r.c, r.names[r.r.IntN(len(r.names))], r.r.IntN(1000)
	inst := int32(0)
	if known, _ := c.find(name); known != nil {
		inst = known.Inst
	}
	switch n := r.r.IntN(100); {
	case n < 40:
		id, err := c.Add(name, data)
		r.compare(codeOf(id, err), "add", fmt.Sprintf("%s %d", hexArg(name), data))
	case n < 55:
		r.compare(codeOf(inst, c.Hide(name)), "hide", hexArg(name))
	case n < 65:
		e, err := c.LookupName(name)
		if errors.Is(err, errDomain) {
			return nil // C finds an instance
		}
		r.compare(entryOf(e, err, false), "lookupname", hexArg(name))
	case n < 70:
		e, err := c.Lookup(inst)
		r.compare(entryOf(e, err, true), "lookup", strconv.Itoa(int(inst)))
	case n < 75:
		r.compare(strings.Trim(fmt.Sprint(active(c)), "[]"), "walk", "")
	case n < 80:
		active, inactive := c.Size()
		r.compare(strconv.Itoa(active), "active", "")
		r.compare(strconv.Itoa(inactive), "inactive", "")
	case n < 85:
		r.compare(strconv.Itoa(c.HideAll()), "hideall", "")
	case n < 90:
		return r.load()
	default:
		wrote, err := c.Save()
		r.compare(codeOf(wrote, err), "save", "")
		if wrote > 0 {
			r.compareFiles()
		}
	}
	return nil
}

func (r *run) load() error {
	r.warned = false
	n, err := r.c.Load()
	r.compare(codeOf(n, err), "load", "")
	if r.warned {
		return errStop // for ignored lines C changes keys and stamps of other instances
	}
	return nil
}

// loadFirst makes a random file, which both load.
func (r *run) loadFirst() {
	text := fmt.Sprintf("2 %d %d\n", r.r.IntN(2), math.MaxInt32)
	if r.r.IntN(2) == 0 {
		text = fmt.Sprintf("1 %d\n", r.r.IntN(2))
	}
	for i := range r.r.IntN(20) {
		key := ""
		if r.r.IntN(3) == 0 {
			key = fmt.Sprintf("[%x] ", fmt.Sprint("key of ", i))
		}
		text += fmt.Sprintf("%d %d %sdisk%d at %d\n", 2*i, r.start-1000+int64(i), key, i, r.r.IntN(3))
	}
	r.writeFiles(text)
	n, err := r.c.Load()
	r.compare(codeOf(n, err), "load", "")
}

// writeFiles writes text to both files.
func (r *run) writeFiles(text string) {
	writeFile(r, r.c, text)
	if err := os.WriteFile(filepath.Join(r.p.dir, r.c.indom.String()), []byte(text), 0o644); err != nil {
		r.Fatal(err)
	}
}

// exchange makes each load the file of the other.
func (r *run) exchange() {
	id, err := r.c.Add("the last one", 0)
	r.compare(codeOf(id, err), "add", hexArg("the last one")+" 0")
	wrote, err := r.c.Save()
	r.compare(codeOf(wrote, err), "save", "")
	r.compareFiles()

	theirs := New(r.c.indom, Options{Dir: r.p.dir})
	if n, err := theirs.Load(); n != wrote || err != nil {
		r.Errorf("loaded %d, %v, of %d instances in the file of C", n, err, wrote)
	}
	text := readFile(r, r.c)
	r.serial++
	r.c = New(pdu.NewInDom(250, r.serial), r.c.opt)
	r.writeFiles(text)
	n, err := r.c.Load()
	r.compare(codeOf(n, err), "load", "")
	for id := range r.c.byInst {
		e, err := r.c.Lookup(id)
		r.compare(entryOf(e, err, true), "lookup", strconv.Itoa(int(id)))
	}
	for _, c := range []*Cache{r.c, theirs} {
		for _, e := range c.list {
			e.stamp = min(e.stamp, r.start)
		}
	}
	if got, want := dump(r.c), dump(theirs); got != want {
		r.Errorf("our file has\n%s\nthe file of C has\n%s", got, want)
	}
}

// The same operations have the same results and the same file as with C.
func TestPeerSame(t *testing.T) {
	p := startPeer(t)
	ops := make(map[string]int)
	for seed := range 30 {
		r := &run{T: t, p: p, r: rand.New(rand.NewPCG(uint64(seed), 0)), serial: 1 + 2*seed, ops: ops}
		r.start = time.Now().Unix() - 1 // time(2) may be a tick late
		opt := Options{Dir: t.TempDir(), Warn: func(error) { r.warned = true }}
		r.c = New(pdu.NewInDom(250, r.serial), opt)
		many, steps := 12, 300
		if seed%3 == 0 {
			many, steps = 150, 2000
		}
		for i := range many {
			r.names = append(r.names, fmt.Sprintf("disk%d at %d", i%(many*2/3), i%4), fmt.Sprint("disk", i), fmt.Sprintf("\xffp%d", i))
		}
		r.names = append(r.names, "eth0", "")
		if seed%2 == 0 {
			r.loadFirst()
		}
		var err error
		for n := 0; n < steps && err == nil; n++ {
			if err = r.step(); t.Failed() {
				return
			}
		}
		checkConsistent(t, r.c)
		if err == nil {
			r.exchange()
		}
	}
	for op, want := range map[string]int{"add": 5000, "load": 1000, "save": 1000, "lookup": 1000} {
		if ops[op] < want {
			t.Errorf("only %d operations %s", ops[op], op)
		}
	}
}
