package txmon

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/pdu"
)

// The layout of the memory of three types.
func TestLayout(t *testing.T) {
	r := newHarness(t, "aa", "bb", "a_very_long_name_of_a_type")
	if got := []uint32{r.get(0), r.get(4), r.get(8), r.get(12), r.get(16)}; fmt.Sprint(got) != "[2 3 32 96 160]" {
		t.Errorf("level, n and index: %v", got)
	}
	for i, name := range []string{"aa", "bb", "a_very_long_name_of"} {
		block := r.bytes[32+64*i:]
		if got := string(block[:20]); got != name+strings.Repeat("\x00", 20-len(name)) {
			t.Errorf("name %d: %q", i, got)
		}
		r.record(i, 0.5)
	}
	for i := range 3 {
		// base, count, max 0.5, sum 0.5
		off := 32 + 64*i
		if got := [...]uint32{r.get(off + 20), r.get(off + 24), r.get(off + 28)}; got != [...]uint32{0, 1, 0x3f000000} {
			t.Errorf("block %d: %#x", i, got)
		}
	}
	var st unix.SysvShmDesc
	if _, err := unix.SysvShmCtl(r.memory.id, unix.IPC_STAT, &st); err != nil {
		t.Fatal(err)
	}
	if st.Segsz != 224 || st.Perm.Mode&0o777 != 0o666 {
		t.Errorf("%d bytes with mode %o, want 224 with 666", st.Segsz, st.Perm.Mode)
	}
}

// The index of 6 types fits into the first 32 bytes, with 7 types the first block is
// at 64.
func TestFirstBlock(t *testing.T) {
	for n, want := range map[int]uint32{1: 32, 6: 32, 7: 64, 14: 64, 15: 96} {
		r := newHarness(t, strings.Fields(strings.Repeat("x ", n))...)
		if got := r.get(8); got != want {
			t.Errorf("%d types: the first block is at %d, want %d", n, got, want)
		}
	}
}

// Other processes may write anything into the memory: only values change.
func TestHostileMemory(t *testing.T) {
	r := newHarness(t, "a", "b")
	for range 2000 {
		for i := 0; i < len(r.bytes); i += 4 {
			r.put(i, rand.Uint32())
		}
		r.values(allItems...)
		if err := r.store(set(id(itemReset), 1)); err != nil {
			t.Fatal(err)
		}
		var in pdu.Instance
		if err := r.do(&pdu.InstanceReq{InDom: pdu.NewInDom(Domain, 0), Inst: pdu.NoInst}, &in); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(in.Insts); got != "[{0 a} {1 b}]" {
			t.Fatalf("instances %s", got)
		}
	}
	if err := r.store(set(id(itemLevel), 2), set(id(itemReset), 1)); err != nil {
		t.Fatal(err)
	}
	if got := r.values(itemMaxTime, itemResetCount); got != "2 0=-1 1=-1, 3 0=0 1=0" {
		t.Errorf("after a reset: %s", got)
	}
}

// freeKey returns a key that is not in use.
func freeKey(t *testing.T) int {
	t.Helper()
	for range 100 {
		key := int(rand.Int32())
		if _, err := unix.SysvShmGet(key, 0, 0); errors.Is(err, unix.ENOENT) {
			return key
		}
	}
	t.Fatal("no key is free")
	return 0
}

// Memory that an agent has not removed is used again if it is large enough.
func TestMemoryLeft(t *testing.T) {
	key := freeKey(t)
	left, err := newMemory(key, []string{"a", "b", "c"})
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	left.blocks[0].counted = 7
	left.setLevel(0)

	m, err := newMemory(key, []string{"x", "y"})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.SysvShmDetach(m.bytes)
	if m.id != left.id || left.header[1] != 2 || left.level() != 2 || left.blocks[0].count() != 0 {
		t.Errorf("memory %d has n %d, level %d, count %d; want %d, 2, 2, 0", m.id, left.header[1], left.level(), left.blocks[0].count(), left.id)
	}
	if m, err := newMemory(key, make([]string, 50)); err == nil {
		m.Close()
		t.Error("there is room for 50 types in the memory of 3")
	} else if want := fmt.Sprintf("ipcrm -M %#x", key); !errors.Is(err, unix.EINVAL) || !strings.Contains(err.Error(), want) {
		t.Errorf("too small: %v, want %q", err, want)
	}
}

// If open fails after it has made the memory, it removes the memory.
func TestOpenFails(t *testing.T) {
	key := freeKey(t)
	if _, err := open(key, 0, []string{"a"}); err == nil {
		t.Error("domain 0 is accepted")
	}
	if _, err := open(key, Domain, nil); err == nil {
		t.Error("an agent without types is accepted")
	}
	if _, err := unix.SysvShmGet(key, 0, 0); !errors.Is(err, unix.ENOENT) {
		t.Errorf("the memory is still there: %v", err)
	}
}

func TestTypes(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PCP_PMDAS_DIR", dir)
	path := filepath.Join(dir, "txmon", "txmon.conf")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Domain); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v", err)
	}
	for _, tt := range []struct{ text, want, err string }{
		{"a\nb\n", "[a b]", ""},
		{" a b\n\n#c\n\td", "[a b d]", ""},
		{"a#b", "[a#b]", ""},
		{"", "[]", "no transaction types specified"},
		{"# nothing\n", "[]", "no transaction types specified"},
		{strings.Repeat("x ", 33<<10), "[]", "more than 65536 bytes"},
	} {
		if err := os.WriteFile(path, []byte(tt.text), 0o644); err != nil {
			t.Fatal(err)
		}
		types, err := loadTypes()
		if fmt.Sprint(types) != tt.want || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%.20q: %v, %v; want %s, %s", tt.text, types, err, tt.want, tt.err)
		}
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := loadTypes(); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a FIFO: %v", err)
	}
}

// For any contents of the file names have no blanks.
func FuzzTypes(f *testing.F) {
	f.Add("a\nb\n")
	f.Add("# c\n a\tb\r\nd")
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range parseTypes(text) {
			if len(strings.Fields(name)) != 1 || !strings.Contains(text, name) {
				t.Errorf("%q is a name", name)
			}
		}
	})
}
