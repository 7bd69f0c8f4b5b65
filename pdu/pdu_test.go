package pdu

import (
	"bytes"
	"encoding/hex"
	"errors"
	"reflect"
	"strings"
	"testing"
)

// unhex turns words such as "00000010 00007004" into bytes.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// messages are messages with their PDUs, for encoding and decoding.
var messages = []struct {
	name string
	wire string
	m    Message
}{
	{"error", "00000010 00007000 00000007 ffffcfba", &Error{Code: ErrnoPMID}},
	{"desc request", "00000010 00007004 00000007 0740000a", &DescReq{PMID: NewPMID(29, 0, 10)}},
	{"creds", "00000014 0000700c 00000007 00000001 01020004", &Creds{Creds: []Cred{VersionCred(4)}}},
	{
		"profile",
		"00000030 00007002 00000007 00000001 00000001 00000001 00000000 " +
			"07400001 00000000 00000001 00000000 00000064",
		&Profile{Context: 1, Exclude: true, InDoms: []InDomProfile{{InDom: 0x07400001, Insts: []int32{100}}}},
	},
	{
		"result: error, none, insitu, block",
		"00000058 00007001 00000007 00000000 00000000 00000004 " +
			"07400001 ffffcfba " +
			"07400002 00000000 " +
			"07400003 00000001 00000000 ffffffff 0000002a " +
			"07400004 00000001 00000001 00000000 00000014 " +
			"06000007 68690a7e",
		&Result{Sets: []ValueSet{
			{PMID: NewPMID(29, 0, 1), Err: ErrnoPMID},
			{PMID: NewPMID(29, 0, 2)},
			{PMID: NewPMID(29, 0, 3), Values: []Value{{Inst: -1, Word: 42}}},
			{PMID: NewPMID(29, 0, 4), Format: FormatBlock, Values: []Value{{Type: 6, Block: []byte("hi\n")}}},
		}},
	},
}

func TestMessages(t *testing.T) {
	for _, tt := range messages {
		t.Run(tt.name, func(t *testing.T) {
			want := unhex(t, tt.wire)
			got, err := Append(nil, 7, tt.m)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("Append:\n got %x\nwant %x", got, want)
			}
			from, m, err := Parse(want)
			if err != nil {
				t.Fatal(err)
			}
			if from != 7 || !reflect.DeepEqual(m, tt.m) {
				t.Errorf("Parse:\n got %d %+v\nwant 7 %+v", from, m, tt.m)
			}
		})
	}
}

// PDUs that Parse refuses, with the error and its offset.
func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name string
		wire string
		err  error
		off  int
	}{
		{"no header", "00000004", ErrShort, 4},
		{"length lies", "00000014 00007004 00000000 00000000", ErrLength, 12},
		{"trailing word", "00000014 00007004 00000000 00000000 00000000", ErrLength, 16},
		{"unknown type", "0000000c 00007fff 00000000", ErrUnknownType, 12},
		{"hole", "0000000c 0000700b 00000000", ErrUnknownType, 12},
		{"control request", "0000000c 0000700a 00000000", ErrUnknownType, 12},

		{"error without code", "0000000c 00007000 00000000", ErrShort, 12},
		{"error, 18 bytes", "00000012 00007000 00000000 00000000 0000", ErrShort, 16},
		{"error, 24 bytes", "00000018 00007000 00000000 00000000 00000000 00000000", ErrLength, 20},

		{"creds: none", "00000010 0000700c 00000000 00000000", ErrCount, 16},
		{"creds: negative count", "00000010 0000700c 00000000 ffffffff", ErrCount, 16},
		{"creds: count without elements", "00000010 0000700c 00000000 7fffffff", ErrCount, 16},
		{"creds: one too many", "00000018 0000700c 00000000 00000001 01020000 01020000", ErrLength, 20},
		{"creds: 1025", "00001014 0000700c 00000000 00000401" + strings.Repeat(" 01020000", 1025), ErrCount, 16},

		{"fetch: none", "0000001c 00007003 00000000 00000000 00000000 00000000 00000000", ErrCount, 28},
		{"fetch: negative", "0000001c 00007003 00000000 00000000 00000000 00000000 ffffffff", ErrCount, 28},
		{"fetch: too few", "00000020 00007003 00000000 00000000 00000000 00000000 00000002 07400001", ErrCount, 28},
		{"fetch: too many", "00000024 00007003 00000000 00000000 00000000 00000000 00000001 07400001 07400001", ErrLength, 32},
		{"fetch: odd byte", "00000021 00007003 00000000 00000000 00000000 00000000 00000001 07400001 00", ErrLength, 32},
		{"highres fetch: none", "0000001c 00007014 00000000 00000000 00000000 00000000 00000000", ErrCount, 28},

		{"profile: negative context", "0000001c 00007002 00000000 ffffffff 00000000 00000000 00000000", ErrField, 16},
		{"profile: negative count", "0000001c 00007002 00000000 00000000 00000000 ffffffff 00000000", ErrCount, 28},
		{"profile: no count", "00000014 00007002 00000000 00000000 00000000", ErrShort, 20},
		{
			"profile: negative instances",
			"0000002c 00007002 00000000 00000000 00000000 00000001 00000000 07400001 00000000 ffffffff 00000000",
			ErrCount, 40,
		},
		{
			"profile: more instances than there are",
			"00000030 00007002 00000000 00000000 00000000 00000001 00000000 07400001 00000000 00000002 00000000 00000005",
			ErrCount, 40,
		},
		{
			"profile: fewer instances than there are",
			"00000030 00007002 00000000 00000000 00000000 00000001 00000000 07400001 00000000 00000000 00000000 00000005",
			ErrLength, 44,
		},

		{"desc: short", "0000001c 00007005 00000000 07400001 00000000 ffffffff 00000003", ErrShort, 28},
		{"desc ids: first word", "00000018 00007016 00000000 00000000 00000001 07400001", ErrField, 16},
		{"desc ids: none", "00000014 00007016 00000000 ffffffff 00000000", ErrCount, 20},
		{"desc ids: too many", "0000001c 00007016 00000000 ffffffff 00000001 07400001 07400001", ErrLength, 24},
		{"descs: too few", "00000014 00007017 00000000 00000001 07400001", ErrCount, 16},

		{"instance request: name runs out", "00000024 00007006 00000000 3f400000 00000000 00000000 ffffffff 00000005 6162637e", ErrCount, 32},
		{"instance request: no padding", "00000023 00007006 00000000 3f400000 00000000 00000000 ffffffff 00000003 616263", ErrShort, 35},
		{"instance request: negative length", "00000020 00007006 00000000 3f400000 00000000 00000000 ffffffff ffffffff", ErrCount, 32},
		{"instance request: tail", "00000024 00007006 00000000 3f400000 00000000 00000000 ffffffff 00000000 7e7e7e7e", ErrLength, 32},
		{"instance: count", "0000001c 00007007 00000000 3f400000 00000002 00000001 00000000", ErrCount, 20},
		{"instance: name runs out", "0000001c 00007007 00000000 3f400000 00000001 00000001 00000001", ErrCount, 28},

		{"text request: short", "00000010 00007008 00000000 3f400000", ErrShort, 16},
		{"text request: long", "00000018 00007008 00000000 3f400000 00000005 00000000", ErrLength, 20},
		{"text: runs out", "00000018 00007009 00000000 3f400000 00000005 61616161", ErrCount, 20},
		{"text: tail", "0000001c 00007009 00000000 3f400000 00000004 61616161 61616161", ErrLength, 24},

		{"ids: count", "00000014 0000700d 00000000 00000000 00000001", ErrCount, 20},
		{"ids: negative", "00000014 0000700d 00000000 00000000 ffffffff", ErrCount, 20},

		{"names: count", "00000020 0000700e 00000000 00000002 00000000 00000002 00000001 6162637e", ErrCount, 24},
		{"names: lone empty name", "0000001c 0000700e 00000000 00000001 00000000 00000001 00000000", ErrCount, 24},
		{"names: nstrbytes too small", "00000020 0000700e 00000000 00000001 00000000 00000001 00000001 617e7e7e", ErrLength, 32},
		{"names: nstrbytes too large", "00000020 0000700e 00000000 00000021 00000000 00000001 00000001 617e7e7e", ErrLength, 32},
		{"names: negative length", "00000020 0000700e 00000000 00000002 00000000 00000001 ffffffff 617e7e7e", ErrCount, 28},
		{"names: other number of states", "00000024 0000700e 00000000 00000002 00000002 00000001 00000000 00000001 617e7e7e", ErrCount, 24},
		{"names: error with names", "0000001c 0000700e 00000000 00000000 00000000 ffffcfbb 00000000", ErrLength, 24},

		{"child: name runs out", "00000014 0000700f 00000000 00000000 00000001", ErrCount, 20},
		{"traverse: negative length", "00000014 00007010 00000000 00000000 80000000", ErrCount, 20},

		{"attr: no code", "0000000c 00007011 00000000", ErrShort, 12},
		{"attr: long SASL", "00000810 00007011 00000000 00000000" + strings.Repeat("61", 2048), ErrTooLong, 16},
		{"attr: long", "00001010 00007011 00000000 0000000f" + strings.Repeat("61", 4096), ErrTooLong, 16},

		{"label request: short", "00000010 00007012 00000000 3f400000", ErrShort, 16},

		{"result: sets", "00000018 00007001 00000000 00000000 00000000 00000001", ErrCount, 24},
		{"result: negative sets", "00000018 00007001 00000000 00000000 00000000 ffffffff", ErrCount, 24},
		{"result: no format", "00000020 00007001 00000000 00000000 00000000 00000001 07400004 00000001", ErrShort, 32},
		{"result: values", "0000002c 00007001 00000000 00000000 00000000 00000001 07400004 00000002 00000000 00000000 00000000", ErrCount, 36},
		{"result: tail", "00000024 00007001 00000000 00000000 00000000 00000001 07400004 00000000 00000000", ErrLength, 32},
		{
			"result: block in the header",
			"0000002c 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 00000000",
			ErrOffset, 44,
		},
		{
			"result: block past the end",
			"0000002c 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 0000000b",
			ErrOffset, 44,
		},
		{
			"result: block far past the end",
			"0000002c 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 ffffffff",
			ErrOffset, 44,
		},
		{
			"result: block among the sets",
			"00000034 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 06000008 00000009 06000008 61616100",
			ErrOffset, 44,
		},
		{
			"result: block of 3 bytes",
			"00000030 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 0000000b 06000003",
			ErrOffset, 44,
		},
		{
			"result: block runs out",
			"00000030 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 0000000b 06000005",
			ErrOffset, 44,
		},
		{
			"result: no padding",
			"00000035 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 0000000b 06000009 61616161 00",
			ErrLength, 44,
		},
		{
			"result: gap before the block",
			"00000034 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 0000000c 00000000 06000004",
			ErrOffset, 44,
		},
		{
			"result: tail behind the block",
			"00000034 00007001 00000000 00000000 00000000 00000001 07400004 00000001 00000001 00000000 0000000b 06000004 00000000",
			ErrLength, 44,
		},
		{
			"result: shared block",
			"00000038 00007001 00000000 00000000 00000000 00000001 07400004 00000002 00000001 00000000 0000000d 00000001 0000000d 06000004",
			ErrLength, 52,
		},
		{"highres result: sets", "00000020 00007015 00000000 00000001 00000000 00000000 00000000 00000000", ErrCount, 32},
		{"highres result: short", "00000018 00007015 00000000 00000000 00000000 00000000", ErrShort, 24},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := Parse(unhex(t, tt.wire))
			var pe *ParseError
			if !errors.As(err, &pe) || !errors.Is(err, tt.err) || pe.Off != tt.off {
				t.Errorf("got %v, want %v at byte %d", err, tt.err, tt.off)
			}
		})
	}
}

// PDUs that Parse accepts although Append does not make them.
func TestParseTolerates(t *testing.T) {
	tests := []struct {
		name string
		wire string
		want Message
	}{
		{"error of 20 bytes", "00000014 00007000 00000007 00000000 02010e44", &Error{Greeting: true, Info: 0x02010e44}},
		{"profile without pad word", "00000018 00007002 00000007 00000001 00000001 00000000", &Profile{Context: 1, Exclude: true}},
		{"profile with a tail", "00000020 00007002 00000007 00000001 00000000 00000000 00000000 deadbeef", &Profile{Context: 1}},
		{"fetch with a time", "00000020 00007003 00000007 00000001 00000005 00000006 00000001 07400001", &Fetch{Context: 1, PMIDs: []PMID{0x07400001}}},
		{"child with a tail", "0000001d 0000700f 00000007 00000001 00000001 617e7e7e 7e7e7e7e 7e", &PMNSChild{Subtype: 1, Name: "a"}},
		{"traverse with a tail", "00000018 00007010 00000007 00000000 00000000 7e7e7e7e", &PMNSTraverse{}},
		{"padding of any content", "00000018 0000700f 00000007 00000000 00000001 61000102", &PMNSChild{Name: "a"}},
		{"nstrbytes with slack", "00000020 0000700e 00000007 00000020 00000000 00000001 00000001 617e7e7e", &PMNSNames{Names: []string{"a"}}},
		{"no names", "00000018 0000700e 00000007 00000000 00000000 00000000", &PMNSNames{}},
		{
			"empty names among others",
			"00000028 0000700e 00000007 0000000a 00000000 00000002 00000000 00000008 61626364 65666768",
			&PMNSNames{Names: []string{"", "abcdefgh"}},
		},
		{"attr without value", "00000010 00007011 00000007 00000000", &Attr{Value: []byte{}}},
		{"labels with a tail", "0000001f 00007013 00000007 ffffffff 00000001 00000000 00000000 7e7e7e", &Labels{Ident: 0xffffffff, Kind: 1}},
		{
			"blocks out of turn",
			"0000003c 00007001 00000007 00000000 00000000 00000001 07400004 00000002 00000001 00000000 0000000e 00000001 0000000d 06000004 07000004",
			&Result{Sets: []ValueSet{{PMID: 0x07400004, Format: 1, Values: []Value{
				{Inst: 0, Type: MetricAggregate, Block: []byte{}},
				{Inst: 1, Type: MetricString, Block: []byte{}},
			}}}},
		},
		{
			"unknown format",
			"00000030 00007001 00000007 00000000 00000000 00000001 07400004 00000001 00000009 00000000 0000000b 06000004",
			&Result{Sets: []ValueSet{{PMID: 0x07400004, Format: 9, Values: []Value{{Type: MetricString, Block: []byte{}}}}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from, m, err := Parse(unhex(t, tt.wire))
			if err != nil || from != 7 || !reflect.DeepEqual(m, tt.want) {
				t.Errorf("got %d %+v, %v, want 7 %+v", from, m, err, tt.want)
			}
		})
	}
}

// Messages that Append refuses, because the peer would refuse or misread them.
func TestAppendRefuses(t *testing.T) {
	tests := []struct {
		name string
		m    Message
		err  error
	}{
		{"creds: none", &Creds{}, ErrCount},
		{"creds: many", &Creds{Creds: make([]Cred, 1025)}, ErrCount},
		{"fetch: none", &Fetch{}, ErrCount},
		{"highres fetch: none", &HighResFetch{}, ErrCount},
		{"profile: context", &Profile{Context: -1}, ErrField},
		{"desc ids: none", &DescIDs{}, ErrCount},
		{"names: states", &PMNSNames{Names: []string{"a", "b"}, Status: []int32{0}}, ErrCount},
		{"names: states only", &PMNSNames{Status: []int32{0}}, ErrCount},
		{"names: empty", &PMNSNames{Names: []string{""}}, ErrCount},
		{"names: error and names", &PMNSNames{Err: ErrnoName, Names: []string{"a"}}, ErrField},
		{"names: positive error", &PMNSNames{Err: 1}, ErrField},
		{"attr: long SASL", &Attr{Value: make([]byte, 2048)}, ErrTooLong},
		{"attr: long", &Attr{Code: AttrContainer, Value: make([]byte, 4096)}, ErrTooLong},
		{"result: positive error", &Result{Sets: []ValueSet{{Err: 1}}}, ErrField},
		{"result: error and values", &Result{Sets: []ValueSet{{Err: -1, Values: make([]Value, 1)}}}, ErrField},
		{"result: type", &Result{Sets: []ValueSet{{Format: 1, Values: []Value{{Type: 256}}}}}, ErrField},
		{"result: type NOSUPPORT", &Result{Sets: []ValueSet{{Format: 1, Values: []Value{{Type: -1}}}}}, ErrField},
		{"result: block", &Result{Sets: []ValueSet{{Format: 1, Values: []Value{{Block: make([]byte, 1<<24-4)}}}}}, ErrTooLong},
		{"result: 2 GiB of one block", shared(200), ErrTooLong},
		{"labels: many", &Labels{Sets: []LabelSet{{Labels: make([]Label, 255)}}}, ErrCount},
		{"labels: long", &Labels{Sets: []LabelSet{{JSON: make([]byte, 65535)}}}, ErrTooLong},
		{"labels: error and labels", &Labels{Sets: []LabelSet{{Err: -1, Labels: make([]Label, 1)}}}, ErrField},
		{"labels: offset", &Labels{Sets: []LabelSet{{JSON: []byte("{}"), Labels: []Label{{Name: 2, NameLen: 1}}}}}, ErrOffset},
		{"unknown", unknown(0x700a), ErrUnknownType},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b, err := Append([]byte("before"), 7, tt.m)
			if !errors.Is(err, tt.err) || string(b) != "before" {
				t.Errorf("got %q, %v, want %v", b, err, tt.err)
			}
		})
	}
}

// shared returns a Result of n values, each of 16 MiB, in 16 MiB of memory.
func shared(n int) *Result {
	block := make([]byte, 1<<24-8)
	vs := ValueSet{Format: FormatBlock, Values: make([]Value, n)}
	for i := range vs.Values {
		vs.Values[i].Block = block
	}
	return &Result{Sets: []ValueSet{vs}}
}

// A message that is reused keeps nothing of its former content.
func TestParseIntoAgain(t *testing.T) {
	last := make(map[Type]Message)
	for _, c := range captures(t) {
		from, fresh, err := Parse(c.wire)
		if err != nil {
			t.Fatal(err)
		}
		again := last[fresh.Type()]
		if again == nil {
			again = newMessage(fresh.Type())
			last[fresh.Type()] = again
		}
		got, err := ParseInto(c.wire, again)
		for _, m := range []Message{again, fresh} {
			emptyValues(m) // memory that is kept for the next time makes no difference
		}
		if err != nil || got != from || !reflect.DeepEqual(again, fresh) {
			t.Errorf("%s: got %d %+v, %v\nwant %d %+v", c.file, got, again, err, from, fresh)
		}
	}
}

// emptyValues makes all lists of values in m that are nil empty.
func emptyValues(m Message) {
	var sets []ValueSet
	switch m := m.(type) {
	case *Result:
		sets = m.Sets
	case *HighResResult:
		sets = m.Sets
	}
	for i := range sets {
		if sets[i].Values == nil {
			sets[i].Values = []Value{}
		}
	}
}

func TestParseIntoAllocs(t *testing.T) {
	sets := []ValueSet{
		{PMID: 1, Err: ErrnoAgain},
		{PMID: 2, Values: make([]Value, 10)},
		{PMID: 3, Format: FormatBlock, Values: []Value{{Type: MetricU64, Block: make([]byte, 8)}}},
	}
	for _, m := range []Message{
		&Fetch{Context: 3, PMIDs: make([]PMID, 100)},
		&HighResFetch{Context: 3, PMIDs: make([]PMID, 100)},
		&Result{Sets: sets},
		&HighResResult{Sets: sets},
	} {
		wire, err := Append(nil, 0, m)
		if err != nil {
			t.Fatal(err)
		}
		n := testing.AllocsPerRun(10, func() {
			if _, err := ParseInto(wire, m); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("%v: %v allocations", m.Type(), n)
		}
	}
}

func TestAppendAllocs(t *testing.T) {
	b := make([]byte, 0, 1024)
	for _, m := range []Message{
		&Fetch{Context: 3, PMIDs: make([]PMID, 100)},
		&HighResFetch{Context: 3, PMIDs: make([]PMID, 100)},
	} {
		n := testing.AllocsPerRun(10, func() {
			if _, err := Append(b, 0, m); err != nil {
				t.Fatal(err)
			}
		})
		if n > 0 {
			t.Errorf("%v: %v allocations", m.Type(), n)
		}
	}
}

func TestTypeString(t *testing.T) {
	for typ, want := range map[Type]string{
		TypeFetch: "FETCH", TypePMNSNames: "PMNS_NAMES", TypeAttr: "ATTR", TypeDescs: "DESCS",
		0x700b: "TYPE-0x700b", 0x6fff: "TYPE-0x6fff", 0x7018: "TYPE-0x7018", -1: "TYPE-0xffffffff",
		-0x80000000: "TYPE-0x80000000",
	} {
		if got := typ.String(); got != want {
			t.Errorf("%#x: got %q, want %q", int32(typ), got, want)
		}
	}
}

func TestParseErrorText(t *testing.T) {
	_, _, err := Parse(unhex(t, "0000001c 00007003 00000000 00000000 00000000 00000000 00000000"))
	if want := "FETCH PDU: byte 28: count out of range"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
