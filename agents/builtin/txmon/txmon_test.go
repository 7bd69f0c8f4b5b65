package txmon

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

func id(item int) pdu.PMID { return pdu.NewPMID(Domain, 0, item) }

// A harness is an agent with private memory, and that memory as another process sees
// it.
type harness struct {
	t      *testing.T
	tr     transport.Transport
	memory *memory
	bytes  []byte
}

func newHarness(t *testing.T, types ...string) *harness {
	t.Helper()
	m, err := newMemory(unix.IPC_PRIVATE, types)
	if err != nil {
		t.Fatal(err)
	}
	a, err := newAgent(Domain, m)
	if err != nil {
		t.Fatal(err)
	}
	r := &harness{t: t, tr: transport.Inline(a), memory: m}
	if r.bytes, err = unix.SysvShmAttach(m.id, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.SysvShmDetach(r.bytes)
		if err := r.tr.Close(); err != nil {
			t.Error(err)
		}
		if _, err := unix.SysvShmCtl(m.id, unix.IPC_STAT, new(unix.SysvShmDesc)); err == nil {
			t.Error("the memory is still there")
		}
	})
	return r
}

// put writes a word of the memory, as another process would.
func (r *harness) put(off int, n uint32) {
	atomic.StoreUint32((*uint32)(unsafe.Pointer(&r.bytes[off])), n)
}

func (r *harness) get(off int) uint32 { return binary.NativeEndian.Uint32(r.bytes[off:]) }

// record records one transaction like txrecord.
func (r *harness) record(i int, seconds float32) {
	off := int(r.get(8 + 4*i))
	r.put(off+24, r.get(off+24)+1)
	if r.get(0) != 2 {
		return
	}
	if seconds > math.Float32frombits(r.get(off+28)) {
		r.put(off+28, math.Float32bits(seconds))
	}
	sum := (*uint64)(unsafe.Pointer(&r.bytes[off+32]))
	atomic.StoreUint64(sum, math.Float64bits(math.Float64frombits(*sum)+float64(seconds)))
}

func (r *harness) do(req, reply pdu.Message) error {
	return transporttest.Do(r.tr, agents.Origin{}, req, reply)
}

func (r *harness) store(sets ...pdu.ValueSet) error {
	return r.do(&pdu.Result{Sets: sets}, new(pdu.Error))
}

func set(id pdu.PMID, n ...uint32) pdu.ValueSet {
	s := pdu.ValueSet{PMID: id}
	for _, n := range n {
		s.Values = append(s.Values, pdu.Value{Inst: pdu.NoInst, Word: n})
	}
	return s
}

// values fetches metrics, given by their items, and returns the values as
// "item inst=value ...", or the error.
func (r *harness) values(items ...int) string {
	r.t.Helper()
	var req pdu.Fetch
	for _, item := range items {
		req.PMIDs = append(req.PMIDs, id(item))
	}
	var res pdu.Result
	if err := r.do(&req, &res); err != nil {
		r.t.Fatal(err)
	}
	var sets []string
	for i, s := range res.Sets {
		text := fmt.Sprint(items[i])
		if s.Err != 0 {
			text += " " + s.Err.Name()
		}
		for _, v := range s.Values {
			if s.Format == pdu.FormatInsitu {
				text += fmt.Sprintf(" %d=%d", v.Inst, v.Word)
			} else {
				text += fmt.Sprintf(" %d=%g", v.Inst, math.Float32frombits(binary.BigEndian.Uint32(v.Block)))
			}
		}
		sets = append(sets, text)
	}
	return strings.Join(sets, ", ")
}

var allItems = []int{itemCount, itemAveTime, itemMaxTime, itemResetCount, itemLevel, itemReset}

func TestAgent(t *testing.T) {
	r := newHarness(t, "a", "b")
	var ids []pdu.PMID
	for _, item := range allItems {
		ids = append(ids, id(item))
	}
	transporttest.Test(t, r.tr, ids...)
	for _, tt := range []struct {
		item  int
		typ   pdu.MetricType
		sem   pdu.Sem
		units string
		one   bool
	}{
		{itemCount, pdu.MetricU32, pdu.SemCounter, "count", false},
		{itemAveTime, pdu.MetricFloat, pdu.SemInstant, "sec / count", false},
		{itemMaxTime, pdu.MetricFloat, pdu.SemInstant, "sec", false},
		{itemResetCount, pdu.MetricU32, pdu.SemInstant, "count", false},
		{itemLevel, pdu.MetricU32, pdu.SemInstant, "none", true},
		{itemReset, pdu.MetricU32, pdu.SemInstant, "none", true},
	} {
		var d pdu.Desc
		if err := r.do(&pdu.DescReq{PMID: id(tt.item)}, &d); err != nil {
			t.Error(err)
		}
		indom := pdu.NewInDom(Domain, 0)
		if tt.one {
			indom = pdu.NoInDom
		}
		if d.ValueType != tt.typ || d.Sem != tt.sem || d.Units.String() != tt.units || d.InDom != indom {
			t.Errorf("%v is %+v", d.PMID, d)
		}
		for _, kind := range []pdu.TextKind{pdu.TextOneLine, pdu.TextHelp} {
			if err := r.do(&pdu.TextReq{Ident: uint32(d.PMID), Kind: kind | pdu.TextPMID}, new(pdu.Text)); err != nil {
				t.Errorf("help text %v of %v: %v", kind, d.PMID, err)
			}
		}
	}
	if err := r.do(&pdu.TextReq{Ident: uint32(pdu.NewInDom(Domain, 0)), Kind: pdu.TextHelp | pdu.TextInDom}, new(pdu.Text)); err != nil {
		t.Errorf("help text of the instance domain: %v", err)
	}
}

func TestValues(t *testing.T) {
	r := newHarness(t, "a", "b", "c")
	const none = "0=-1 1=-1 2=-1"
	const zero = "0=0 1=0 2=0"
	step := func(what, want string) {
		t.Helper()
		if got := r.values(allItems...); got != want {
			t.Errorf("%s:\n got %s\nwant %s", what, got, want)
		}
	}
	step("at first", "0 "+zero+", 1 "+none+", 2 "+none+", 3 "+zero+", 4 -1=2, 5 -1=1")
	r.record(0, 1.5)
	r.record(1, 2)
	r.record(0, 4)
	step("recorded", "0 0=2 1=1 2=0, 1 0=2.75 1=2 2=-1, 2 0=4 1=2 2=-1, 3 0=2 1=1 2=0, 4 -1=2, 5 -1=1")
	if err := r.store(set(id(itemReset), 0)); err != nil {
		t.Error(err)
	}
	step("reset", "0 0=2 1=1 2=0, 1 "+none+", 2 "+none+", 3 "+zero+", 4 -1=2, 5 -1=1")
	r.record(0, 3)
	step("recorded again", "0 0=3 1=1 2=0, 1 0=3 1=-1 2=-1, 2 0=3 1=-1 2=-1, 3 0=1 1=0 2=0, 4 -1=2, 5 -1=1")

	const again = " PM_ERR_AGAIN"
	if err := r.store(set(id(itemLevel), 1)); err != nil {
		t.Error(err)
	}
	r.record(2, 9)
	step("level 1", "0 0=3 1=1 2=1, 1"+again+", 2"+again+", 3 0=1 1=0 2=1, 4 -1=1, 5 -1=1")
	if err := r.store(set(id(itemLevel), 0)); err != nil {
		t.Error(err)
	}
	step("level 0", "0"+again+", 1"+again+", 2"+again+", 3"+again+", 4 -1=0, 5 -1=1")
}

func TestStore(t *testing.T) {
	reset, level := id(itemReset), id(itemLevel)
	text := pdu.ValueSet{PMID: level, Format: pdu.FormatBlock, Values: []pdu.Value{{Inst: pdu.NoInst, Type: pdu.MetricString, Block: []byte("1\x00")}}}
	const untouched = "0 0=1 1=0, 3 0=1 1=0, 4 -1=2"
	const isReset = "0 0=1 1=0, 3 0=0 1=0, 4 -1=2"
	for _, tt := range []struct {
		name string
		sets []pdu.ValueSet
		want error
		then string
	}{
		{"an unknown level", []pdu.ValueSet{set(level, 9)}, nil, "0 0=1 1=0, 3 0=1 1=0, 4 -1=9"},
		{"the largest level", []pdu.ValueSet{set(level, 1<<31-1)}, nil, "0 0=1 1=0, 3 0=1 1=0, 4 -1=2147483647"},
		{"a negative level is 0", []pdu.ValueSet{set(level, 1<<32-1)}, pdu.ErrnoSign, "0 PM_ERR_AGAIN, 3 PM_ERR_AGAIN, 4 -1=0"},
		{"only the first level counts", []pdu.ValueSet{set(level, 1, 0)}, nil, "0 0=1 1=0, 3 0=1 1=0, 4 -1=1"},
		{"no level", []pdu.ValueSet{set(level)}, pdu.ErrnoBadStore, untouched},
		{"a level that is text", []pdu.ValueSet{text}, pdu.ErrnoConv, untouched},
		{"reset", []pdu.ValueSet{set(reset, 77)}, nil, isReset},
		{"reset without value", []pdu.ValueSet{set(reset)}, nil, isReset},
		{"count", []pdu.ValueSet{set(id(itemCount), 1)}, pdu.ErrnoPermission, untouched},
		{"times", []pdu.ValueSet{set(id(itemMaxTime), 1)}, pdu.ErrnoPermission, untouched},
		{"reset count", []pdu.ValueSet{set(id(itemResetCount), 1)}, pdu.ErrnoPermission, untouched},
		{"no such item", []pdu.ValueSet{set(id(6), 1)}, pdu.ErrnoPMID, untouched},
		{"no such cluster", []pdu.ValueSet{set(pdu.NewPMID(Domain, 1, 4), 1)}, pdu.ErrnoPMID, untouched},
		{"after an error", []pdu.ValueSet{set(id(itemCount), 1), set(reset, 1)}, pdu.ErrnoPermission, isReset},
		{"the last error counts", []pdu.ValueSet{set(id(itemCount), 1), set(id(6), 1), set(reset, 1)}, pdu.ErrnoPMID, isReset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newHarness(t, "a", "b")
			r.record(0, 1)
			if err := r.store(tt.sets...); err != tt.want {
				t.Errorf("store: %v, want %v", err, tt.want)
			}
			if got := r.values(itemCount, itemResetCount, itemLevel); got != tt.then {
				t.Errorf("then %s, want %s", got, tt.then)
			}
		})
	}
}
