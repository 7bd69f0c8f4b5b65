package pmnsload

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"github.com/gopcp/pmcd/pdu"
)

// A builder makes a tree of blocks.
type builder struct {
	*parser
	blockOf map[string]int32 // by path
	t       *Tree
	text    []byte  // Tree.text; index has reserved the memory, so that it is not moved
	from    []int32 // entry that each node was made from; not for the root
	errs    ErrorList
}

// A frame is a non-leaf whose entries are being added.
type frame struct {
	node  int32
	block *block
	next  int32 // number of entries of block that have been added
}

// build returns the tree of the blocks of p.
func build(p *parser, unique bool) (*Tree, error) {
	b := &builder{parser: p}
	root, err := b.index()
	if err != nil {
		return nil, err
	}
	t := &Tree{
		nodes: make([]node, 0, len(p.entries)+1),
		table: newTable(len(p.entries)),
	}
	t.whole = sync.OnceValue(func() []Stretch { return t.stretches("") })
	b.t = t
	b.from = make([]int32, 0, len(p.entries)+1)
	b.add(root)
	for i := range p.blocks {
		if blk := &p.blocks[i]; !blk.used {
			err := causef(ErrDisconnected, "Disconnected subtree (%q) in name space", p.string(blk.path))
			if !b.errs.add(p.pos(blk.at), err) {
				break
			}
		}
	}
	b.t.text = b.written()
	b.reverse(unique)
	if err := b.errs.Err(); err != nil {
		return nil, err
	}
	return b.t, nil
}

// index indexes the blocks by path, reserves memory for the names, and returns the
// block of the root.
func (b *builder) index() (root *block, err error) {
	b.blockOf = make(map[string]int32, len(b.blocks))
	var size int64
	for i := range b.blocks {
		blk := &b.blocks[i]
		path := b.string(blk.path)
		if string(path) == "root" {
			if root != nil {
				return nil, ErrorList{{Pos: b.pos(blk.at), Err: ErrRoots}}
			}
			root = blk
			blk.used = true
		} else {
			// If two blocks have a path, the last counts, as with C pmcd, and
			// the other is disconnected.
			b.blockOf[string(path)] = int32(i)
		}
		// The text has the name of each leaf, and of each non-leaf without
		// leaves. A word precedes a name, and at most three bytes follow.
		const around = 7
		grow := int64(len(path)) + around
		for _, e := range b.entries[blk.first:][:blk.count] {
			if e.id != pdu.NoPMID {
				grow += int64(len(path)) + 1 + int64(e.name.len) + around
			}
		}
		size += grow
		if err := b.spent.spend(grow); err != nil || size > math.MaxInt32 {
			return nil, ErrorList{b.withPos(ErrSize)}
		}
	}
	if root == nil {
		return nil, ErrorList{{Err: ErrNoRoot}}
	}
	b.text = make([]byte, 0, size)
	return root, nil
}

// add adds all nodes below the root. It is a loop and not a recursion, because a tree
// may be as deep as its file is long.
func (b *builder) add(root *block) {
	t := b.t
	t.nodes = append(t.nodes, node{id: pdu.NoPMID})
	b.from = append(b.from, -1)
	stack := []frame{{0, root, 0}}
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if f.next == f.block.count {
			t.nodes[f.node].nodes = int32(len(t.nodes)) - f.node
			stack = stack[:len(stack)-1]
			continue
		}
		n := f.block.first + f.next
		e := &b.entries[n]
		f.next++
		i, ok := b.node(f, n)
		if !ok {
			return
		}
		if i%sliceEvery == 0 {
			runtime.Gosched()
		}
		if i < 0 || e.id != pdu.NoPMID {
			continue
		}
		blk, ok := b.blockOf[t.nameIn(b.written(), i)]
		if ok {
			b.blocks[blk].used = true
			stack = append(stack, frame{i, &b.blocks[blk], 0})
			continue
		}
		err := causef(ErrUndefined, "Cannot find definition for non-terminal node %q in name space", t.nameIn(b.written(), i))
		if !b.errs.add(b.pos(e.at), err) {
			return
		}
	}
}

// written returns the text so far.
func (b *builder) written() string { return unsafe.String(unsafe.SliceData(b.text), len(b.text)) }

// nameIn returns the name of node i while the text is being written.
func (t *Tree) nameIn(text string, i int32) string {
	n := &t.nodes[i]
	return text[n.off : n.off+n.len]
}

// node adds the node of an entry and returns its index, or -1 if another node has its
// name. It reports false if there are too many errors.
func (b *builder) node(f *frame, from int32) (i int32, ok bool) {
	t, e := b.t, &b.entries[from]
	up := t.nodes[f.node]
	off := up.off
	if f.node == 0 || int(up.off+up.len) != len(b.text) { // not the first one below it
		b.text = append(b.text, 0, 0, 0, 0)
		off = uint32(len(b.text))
		b.text = append(b.text, t.nameIn(b.written(), f.node)...)
	}
	if f.node != 0 {
		b.text = append(b.text, '.')
	}
	b.text = append(b.text, b.string(e.name)...)
	n := node{off, uint32(len(b.text)) - off, 1, e.id}
	name := b.written()[n.off:]
	s, tag := t.table.slot(t.nodes, b.written(), name)
	if t.table.slots[s] != 0 {
		// The text of the name need not be removed: there will be no tree.
		err := causef(ErrDuplicateName, "Duplicate name %q in subtree for %q", b.string(e.name), b.string(f.block.path))
		return -1, b.errs.add(b.pos(e.at), err)
	}
	i = int32(len(t.nodes))
	t.table.slots[s] = tag | uint32(i+1)
	t.nodes = append(t.nodes, n)
	b.from = append(b.from, from)
	if e.id == pdu.NoPMID {
		return i, true
	}
	binary.BigEndian.PutUint32(b.text[n.off-4:], n.len)
	b.text = append(b.text, "~~~"[:-n.len&3]...)
	if e.id.IsDynamicRoot() {
		t.longest = max(t.longest, int(n.len))
	}
	return i, true
}

// reverse builds the index by PMID and the list of dynamic roots.
func (b *builder) reverse(unique bool) {
	t := b.t
	// Sort by PMID, with the last node of a PMID first.
	keys := make([]uint64, 0, len(t.nodes))
	for i := range t.nodes {
		n := &t.nodes[i]
		switch n.kind() {
		case Leaf:
			keys = append(keys, uint64(n.id)<<32|uint64(^uint32(i)))
		case Dynamic:
			t.roots = append(t.roots, DynamicRoot{t.name(n), n.id.DynamicDomain()})
		}
	}
	slices.Sort(keys)
	runtime.Gosched()
	t.ids = make([]int32, len(keys))
	for k, key := range keys {
		t.ids[k] = int32(^uint32(key))
	}
	if unique {
		b.duplicates()
	}
}

// duplicates reports PMIDs with several names.
func (b *builder) duplicates() {
	t := b.t
	type pair struct{ later, first int32 }
	var pairs []pair
	for k := 0; k < len(t.ids); {
		// The last one of a group is the first in the tree.
		last := k
		for last+1 < len(t.ids) && t.nodes[t.ids[last+1]].id == t.nodes[t.ids[k]].id {
			last++
		}
		for ; k < last; k++ {
			pairs = append(pairs, pair{t.ids[k], t.ids[last]})
		}
		k = last + 1
	}
	slices.SortFunc(pairs, func(x, y pair) int { return int(x.later - y.later) })
	for _, p := range pairs {
		err := causef(ErrDuplicatePMID, "Duplicate metric id (%v) in name space for metrics %q and %q",
			t.nodes[p.later].id, t.name(&t.nodes[p.later]), t.name(&t.nodes[p.first]))
		if !b.errs.add(b.pos(b.entries[b.from[p.later]].at), err) {
			return
		}
	}
}
