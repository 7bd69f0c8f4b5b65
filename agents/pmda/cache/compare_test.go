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
	keys   []string
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

// crashesC reports whether the highest id is that of a culled instance. In this case
// C inserts a new last instance at the start of its list, or uses freed memory.
func (r *run) crashesC() bool {
	r.c.sort()
	n := len(r.c.list)
	return n > 0 && r.c.list[n-1].State == culled
}

// step performs a random operation. It does nothing if C is known to do it wrong.
func (r *run) step() error {
	c, name, data := r.c, r.names[r.r.IntN(len(r.names))], r.r.IntN(1000)
	key := r.keys[r.r.IntN(len(r.keys))]
	known, _ := c.find(name)
	grows := known == nil && c.inserted == c.reorgAt
	switch n := r.r.IntN(100); {
	case n < 30:
		if grows && r.crashesC() {
			return nil
		}
		if !c.reuse && c.last > c.max {
			return errStop // the file has a lower limit than an id; C exceeds the limit
		}
		id, err := c.Add(name, data)
		if errors.Is(err, pdu.ErrnoGeneric) && name != "" && r.p.keysLimited && c.denseLen == int(c.max)+1 {
			return errStop // C assigns one more id
		}
		r.compare(codeOf(id, err), "add", fmt.Sprintf("%s - %d", hexArg(name), data))
	case n < 42:
		if known == nil && (r.crashesC() || !r.p.keysLimited && c.max != math.MaxInt32) {
			return nil
		}
		id, err := c.AddKey(name, []byte(key), data)
		r.compare(codeOf(id, err), "addkey", fmt.Sprintf("%s %s %d", hexArg(name), hexArg(key), data))
	case n < 50:
		inst := int32(0)
		if known != nil {
			inst = known.Inst
		}
		err := c.Hide(name)
		r.compare(codeOf(inst, err), "hide", hexArg(name))
	case n < 58:
		inst := int32(0)
		if known != nil {
			inst = known.Inst
		}
		r.compare(codeOf(inst, c.Cull(name)), "cull", hexArg(name))
	case n < 66:
		e, err := c.LookupName(name)
		if errors.Is(err, errDomain) {
			return nil // C finds an instance
		}
		r.compare(entryOf(e, err, false), "lookupname", hexArg(name))
	case n < 70:
		inst := int32(r.r.IntN(len(r.names)))
		if known != nil {
			inst = known.Inst
		}
		e, err := c.Lookup(inst)
		r.compare(entryOf(e, err, true), "lookup", strconv.Itoa(int(inst)))
	case n < 74:
		if key == "" {
			return nil
		}
		e, err := c.LookupKey([]byte(key))
		r.compare(entryOf(e, err, true), "lookupkey", hexArg(key))
	case n < 78:
		var ids strings.Builder
		for id := range c.Active() {
			fmt.Fprintf(&ids, "%d ", id)
		}
		r.compare(strings.TrimSpace(ids.String()), "walk", "")
	case n < 80:
		active, inactive := c.Size()
		r.compare(strconv.Itoa(active), "active", "")
		r.compare(strconv.Itoa(inactive), "inactive", "")
	case n < 82:
		r.compare(strconv.Itoa(c.HideAll()), "hideall", "")
	case n < 83:
		r.compare(strconv.Itoa(c.ActivateAll()), "activateall", "")
	case n < 84:
		if r.r.IntN(4) == 0 {
			r.compare(strconv.Itoa(c.CullAll()), "cullall", "")
		}
	case n < 86:
		for _, e := range c.list {
			if e.State == culled && e.stamp != 0 {
				return nil // C counts it, too
			}
		}
		secs := r.start - 500 - int64(r.r.IntN(600)) // a stamp of loadFirst
		for _, e := range c.list {
			// C looks at its clock a moment later, which may be the next second.
			if d := e.stamp - secs; -2 <= d && d <= 2 {
				return nil
			}
		}
		ago := time.Now().Unix() - secs
		r.compare(strconv.Itoa(c.Purge(time.Duration(ago)*time.Second)), "purge", strconv.FormatInt(ago, 10))
	case n < 88:
		most := []int32{-1, 5, 20, 1000, math.MaxInt32}[r.r.IntN(5)]
		r.compare(codeOf(0, c.Resize(most)), "resize", fmt.Sprint(most))
	case n < 89:
		c.Reuse()
		r.compare("0", "reuse", "")
	case n < 91:
		if !r.crashesC() {
			c.Reorg()
			r.compare("0", "reorg", "")
		}
	case n < 94:
		return r.load()
	default:
		op, f := "save", c.Save
		if n >= 97 {
			op, f = "sync", c.Sync
		}
		wrote, err := f()
		r.compare(codeOf(wrote, err), op, "")
		if wrote > 0 {
			r.compareFiles()
		}
	}
	return nil
}

func (r *run) load() error {
	if r.crashesC() {
		return nil
	}
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
	r.compare(codeOf(0, r.c.Resize(math.MaxInt32)), "resize", strconv.Itoa(math.MaxInt32))
	wrote, err := r.c.Sync()
	r.compare(codeOf(wrote, err), "sync", "")
	r.compareFiles()
	if r.p.keysLimited { // older versions do not have this operation
		wrote, err := r.c.Write()
		r.compare(codeOf(wrote, err), "write", "")
		r.compareFiles()
	}

	theirs := New(r.c.indom, Options{Dir: r.p.dir, Strings: r.c.opt.Strings})
	if n, err := theirs.Load(); n != wrote || err != nil {
		r.Errorf("loaded %d, %v, of %d instances in the file of C", n, err, wrote)
	}
	text := readFile(r, r.c)
	r.serial++
	r.c = New(pdu.NewInDom(250, r.serial), r.c.opt)
	r.writeFiles(text)
	if r.c.opt.Strings {
		r.compare("0", "strings", "")
	}
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

// collidingKeys returns two keys with the same hash.
func collidingKeys() (string, string) {
	seen := make(map[uint32]string)
	for i := 0; ; i++ {
		key := fmt.Sprint("key", i)
		h := hash(key, 0) % (1 << 31)
		if other, ok := seen[h]; ok {
			return other, key
		}
		seen[h] = key
	}
}

// The same operations have the same results and the same file as with C.
func TestPeerSame(t *testing.T) {
	p := startPeer(t)
	ops := make(map[string]int)
	one, two := collidingKeys()
	for seed := range 100 {
		r := &run{T: t, p: p, r: rand.New(rand.NewPCG(uint64(seed), 0)), serial: 1 + 2*seed, ops: ops}
		r.start = time.Now().Unix() - 1 // time(2) may be a tick late
		opt := Options{Dir: t.TempDir(), Strings: seed%5 == 4, Warn: func(error) { r.warned = true }}
		r.c = New(pdu.NewInDom(250, r.serial), opt)
		r.keys = []string{"", "k", "key of 1", "key of 2", one, two, "\x80\xff\x00\x01", "a key of more than twelve bytes"}
		many, steps := 12, 300
		if seed%3 == 0 {
			many, steps = 150, 2000
		}
		for i := range many {
			r.names = append(r.names, fmt.Sprintf("disk%d at %d", i%(many*2/3), i%4), fmt.Sprint("disk", i), fmt.Sprintf("\xffp%d", i))
		}
		r.names = append(r.names, one, two, "eth0")
		if opt.Strings {
			r.compare("0", "strings", "")
		} else {
			r.names = append(r.names, "")
		}
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
	for op, want := range map[string]int{"add": 5000, "addkey": 1000, "load": 100, "save": 1000, "sync": 1000, "reorg": 100, "purge": 100, "lookup": 1000} {
		if ops[op] < want {
			t.Errorf("only %d operations %s", ops[op], op)
		}
	}
}
