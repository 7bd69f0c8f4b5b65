package pdu

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"
)

func TestErrno(t *testing.T) {
	tests := []struct {
		code Errno
		name string
		text string
	}{
		{ErrnoGeneric, "PM_ERR_GENERIC", "unspecified error"},
		{ErrnoPMID, "PM_ERR_PMID", "no metric of that identifier"},
		{ErrnoFault, "PM_ERR_FAULT", "fault injected for a test"},
		{ErrnoReady, "PM_ERR_PMDAREADY", "agent is ready"},
		{ErrnoNotReady, "PM_ERR_PMDANOTREADY", "agent is not ready"},
		{ErrnoNYI, "PM_ERR_NYI", "not implemented"},
		{-21357, "-21357", "authentication failed (SASL -13)"},
		{0, "0", "no error"},
		{-22, "-22", syscall.EINVAL.Error()},
		{-134, "-134", "PCP error -134"},
		{-12382, "-12382", "PCP error -12382"},
		{-12446, "-12446", "PCP error -12446"},
		{-12344, "-12344", "PCP error -12344"},
		{8, "8", "PCP error 8"},
		{-0x80000000, "-2147483648", "PCP error -2147483648"},
		{0x7fffffff, "2147483647", "PCP error 2147483647"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(int32(tt.code)), func(t *testing.T) {
			if got := tt.code.Name(); got != tt.name {
				t.Errorf("%d: name %q, want %q", int32(tt.code), got, tt.name)
			}
			if got := tt.code.Error(); got != tt.text {
				t.Errorf("%d: text %q, want %q", int32(tt.code), got, tt.text)
			}
		})
	}
}

func TestErrnoOf(t *testing.T) {
	for err, want := range map[error]Errno{
		nil:                      0,
		context.DeadlineExceeded: ErrnoTimeout,
		os.ErrDeadlineExceeded:   ErrnoTimeout, // that of a net.Conn
		os.ErrPermission:         ErrnoPermission,
		syscall.ENOENT:           -2,
		ErrTooLong:               ErrnoTooBig,
		io.EOF:                   ErrnoGeneric,
		ErrnoPMID:                ErrnoPMID,
	} {
		if err != nil {
			err = fmt.Errorf("wrapped: %w", err)
		}
		if got := ErrnoOf(err); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}

func TestGreetingCode(t *testing.T) {
	for code, want := range map[Errno]Errno{
		0: 0, -13: -13, ErrnoPermission: -1042, ErrnoConnLimit: -1043, ErrnoGeneric: -1000, -12344: -12344,
	} {
		if got := GreetingCode(code); got != want {
			t.Errorf("%d: got %d, want %d", int32(code), int32(got), int32(want))
		}
		if want == code && code <= -1000 {
			continue // no code at all
		}
		if got := FromGreetingCode(want); got != code {
			t.Errorf("%d: back to %d", int32(code), int32(got))
		}
	}
}

func TestGreetingInfo(t *testing.T) {
	const plain = FeatureAuth | FeatureContainer | FeatureLabels | FeatureHighRes | FeatureDescs
	for flags, want := range map[Features]uint32{
		plain:                                     0x02010e44,
		plain | FeatureSecure | FeatureSecureAck:  0x02010e55,
		plain | FeatureCredsReqd:                  0x02010e4c,
		FeatureCompress | FeatureNoNSSInit:        0x02010022,
		FeatureCertReqd | FeatureBadLabel | 1<<15: 0x02018180,
	} {
		if got := GreetingInfo(flags); got != want {
			t.Errorf("%#x: got %#x, want %#x", flags, got, want)
		}
	}
}

func TestState(t *testing.T) {
	got := [...]int{StateAddAgent, StateRestartAgent, StateDropAgent, StateLabelChange, StateNamesChange, StateHostname}
	if want := [...]int{1, 2, 4, 8, 16, 32}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCred(t *testing.T) {
	c := VersionCred(FeatureSecure | FeatureSecureAck)
	if c != 0x01020011 || c.Kind() != CredVersion || c.Version() != 2 || c.Flags() != 0x11 {
		t.Errorf("got %#x: %d %d %#x", uint32(c), c.Kind(), c.Version(), c.Flags())
	}
	if c := Cred(0xfffefdfc); c.Kind() != 0xff || c.Version() != 0xfe || c.Flags() != 0xfdfc {
		t.Errorf("got %#x %#x %#x", c.Kind(), c.Version(), c.Flags())
	}
}

func TestPMID(t *testing.T) {
	tests := []struct {
		id                    PMID
		domain, cluster, item int
		text                  string
	}{
		{NewPMID(29, 0, 10), 29, 0, 10, "29.0.10"},
		{NewPMID(511, 4095, 1023), 511, 4095, 1023, "511.4095.1023"},
		{0, 0, 0, 0, "0.0.0"},
		{0x80000000, 0, 0, 0, "0.0.0"},
		{NoPMID, 511, 4095, 1023, "PM_ID_NULL"},
		{DynamicRoot(60), 511, 60, 0, "511.60.0"},
	}
	for _, tt := range tests {
		if tt.id.Domain() != tt.domain || tt.id.Cluster() != tt.cluster || tt.id.Item() != tt.item {
			t.Errorf("%#x: got %d %d %d", uint32(tt.id), tt.id.Domain(), tt.id.Cluster(), tt.id.Item())
		}
		if got := tt.id.String(); got != tt.text {
			t.Errorf("%#x: got %s, want %s", uint32(tt.id), got, tt.text)
		}
		id, err := ParsePMID(tt.text)
		if tt.id == NoPMID {
			if err == nil {
				t.Errorf("%s parsed", tt.text)
			}
		} else if err != nil || id != tt.id&^(1<<31) {
			t.Errorf("%s: got %v, %v", tt.text, id, err)
		}
	}
	if id := DynamicRoot(60); !id.IsDynamicRoot() || id.DynamicDomain() != 60 {
		t.Errorf("%v: %v %d", id, id.IsDynamicRoot(), id.DynamicDomain())
	}
	for _, id := range []PMID{NoPMID, NewPMID(511, 60, 1), NewPMID(60, 0, 0)} {
		if id.IsDynamicRoot() {
			t.Errorf("%v is a dynamic root", id)
		}
	}
	for _, s := range []string{"", "1", "1.2", "1.2.3.4", "512.0.0", "0.4096.0", "0.0.1024", "-1.0.0", "+1.0.0", "1.2.x", " 1.2.3", "1..3"} {
		t.Run(s, func(t *testing.T) {
			if id, err := ParsePMID(s); err == nil || id != NoPMID {
				t.Errorf("got %v, %v", id, err)
			}
		})
	}
}

func TestInDom(t *testing.T) {
	tests := []struct {
		id             InDom
		domain, serial int
		text           string
	}{
		{NewInDom(60, 1), 60, 1, "60.1"},
		{NewInDom(511, 1<<22-1), 511, 1<<22 - 1, "511.4194303"},
		{NoInDom, 511, 1<<22 - 1, "PM_INDOM_NULL"},
	}
	for _, tt := range tests {
		if tt.id.Domain() != tt.domain || tt.id.Serial() != tt.serial || tt.id.String() != tt.text {
			t.Errorf("%#x: got %d %d %s", uint32(tt.id), tt.id.Domain(), tt.id.Serial(), tt.id)
		}
		if id, err := ParseInDom(tt.text); (tt.id == NoInDom) != (err != nil) || err == nil && id != tt.id {
			t.Errorf("%s: got %v, %v", tt.text, id, err)
		}
	}
	for _, s := range []string{"", "1", "1.", ".1", "512.0", "1.4194304", "1.2.3"} {
		if id, err := ParseInDom(s); err == nil || id != NoInDom {
			t.Errorf("%q: got %v, %v", s, id, err)
		}
	}
}

func TestNewPanics(t *testing.T) {
	for i, f := range []func(){
		func() { NewPMID(512, 0, 0) }, func() { NewPMID(-1, 0, 0) }, func() { NewPMID(0, 4096, 0) }, func() { NewPMID(0, 0, 1024) },
		func() { NewInDom(512, 0) }, func() { NewInDom(0, 1<<22) }, func() { NewInDom(0, -1) }, func() { DynamicRoot(4096) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%d: no panic", i)
				}
			}()
			f()
		}()
	}
}

func TestUnits(t *testing.T) {
	tests := []struct {
		u    Units
		wire uint32
		text string
	}{
		{NewUnits(0, 0, 0, 0, 0, 0), 0, "none"},
		{Byte, 0x10000000, "byte"},
		{Kbyte, uint32(NewUnits(1, 0, 0, SpaceKbyte, 0, 0)), "Kbyte"},
		{Mbyte, uint32(NewUnits(1, 0, 0, SpaceMbyte, 0, 0)), "Mbyte"},
		{Nsec, uint32(NewUnits(0, 1, 0, 0, TimeNsec, 0)), "nanosec"},
		{Usec, uint32(NewUnits(0, 1, 0, 0, TimeUsec, 0)), "microsec"},
		{Msec, uint32(NewUnits(0, 1, 0, 0, TimeMsec, 0)), "millisec"},
		{Sec, 0x01003000, "sec"},
		{Count, uint32(NewUnits(0, 0, 1, 0, 0, 0)), "count"},
		{NewUnits(0, 1, 0, 0, TimeSec, 0), 0x01003000, "sec"},
		{NewUnits(0, -1, 1, 0, TimeSec, 0), 0x0f103000, "count / sec"},
		{NewUnits(1, -2, 0, SpaceMbyte, TimeSec, 0), 0x1e023000, "Mbyte / sec^2"}, // pmUnitsStr(3)
		{NewUnits(0, 0, 1, 0, 0, 6), 0x00100600, "count x 10^6"},                  // pmUnitsStr(3)
		{NewUnits(0, 0, 0, 0, 0, 2), 0x00000200, "count x 10^2"},                  // "x 10^2" before PCP 7.2
		{NewUnits(0, 0, 0, 0, 0, 1), 0x00000100, "count x 10"},
		{NewUnits(0, 0, 1, 0, 0, 1), 0x00100100, "count x 10"},
		{NewUnits(1, 0, 0, SpaceByte, 0, 0), 0x10000000, "byte"},
		{NewUnits(1, -1, 0, SpaceKbyte, TimeSec, 0), 0x1f013000, "Kbyte / sec"},
		{NewUnits(0, -1, 0, 0, TimeMsec, 0), 0x0f002000, "/ millisec"},
		{NewUnits(-1, -1, 1, SpaceYbyte, TimeHour, -3), 0xff185d00, "count x 10^-3 / Ybyte hour"},
		{NewUnits(7, -8, 0, 9, 6, 0), 0x78096000, "space-9^7 / time-6^8"},
		{Celsius, 0x09, "temperature (C)"},
		{Fahrenheit, 0x0a, "temperature (F)"},
		{Kelvin, 0x0b, "temperature (K)"},
		{Volt, 0x11, "voltage (V)"},
		{Millivolt, 0x12, "voltage (mV)"},
		{Microvolt, 0x13, "voltage (uV)"},
		{Ampere, 0x19, "current (A)"},
		{Milliampere, 0x1a, "current (mA)"},
		{Microampere, 0x1b, "current (uA)"},
		{Kilowatt, 0x21, "power (kW)"},
		{Watt, 0x22, "power (W)"},
		{Milliwatt, 0x23, "power (mW)"},
		{Microwatt, 0x24, "power (uW)"},
		{Watt.WithExtra(UnitPower, 3), 0x23, "power (mW)"},
		{Sec.WithExtra(UnitPower, 2), 0x01003022, "power (W) sec"},
		{NewUnits(0, -1, 0, 0, TimeSec, 0).WithExtra(UnitTemperature, 1), 0x0f003009, "temperature (C) / sec"},
		{NewUnits(0, -1, 1, 0, TimeSec, 0).WithExtra(-UnitVoltage, 2), 0x0f1030f2, "count / voltage (mV) sec"},
		{NewUnits(0, 0, 0, 0, 0, 0).WithExtra(-UnitCurrent, 1), 0xe9, "/ current (A)"},
		{NewUnits(0, 0, 0, 0, 0, 2).WithExtra(UnitVoltage, 1), 0x211, "voltage (V)"},
		{Count.WithExtra(5, 1), 0x00100029, "extra-5 count"},
		{Byte.WithExtra(-16, 7), 0x10000087, "byte / extra-16"},
		{Kelvin.WithExtra(UnitTemperature, 0), 0x08, "temperature (scale-0)"},
		{Kelvin.WithExtra(UnitPower, 5), 0x25, "power (scale-5)"},
		{7, 7, "none"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%#08x", tt.wire), func(t *testing.T) {
			if uint32(tt.u) != tt.wire || tt.u.String() != tt.text {
				t.Errorf("got %#08x %q, want %#08x %q", uint32(tt.u), tt.u.String(), tt.wire, tt.text)
			}
		})
	}
	u := NewUnits(-8, 7, -1, 8, 5, -6) | 31<<3 | 7
	got := fmt.Sprint(u.DimSpace(), u.DimTime(), u.DimCount(), u.ScaleSpace(), u.ScaleTime(), u.ScaleCount(), u.ExtraUnit(), u.ExtraScale())
	if want := "-8 7 -1 8 5 -6 -1 7"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestNames(t *testing.T) {
	tests := []struct {
		v    fmt.Stringer
		text string
	}{
		{Metric32, "32"},
		{MetricHighResEvent, "HIGHRES_EVENT"},
		{MetricUnknown, "UNKNOWN"},
		{MetricNoSupport, "NOSUPPORT"},
		{MetricType(11), "TYPE-11"},
		{MetricType(-2), "TYPE--2"},
		{SemCounter, "counter"},
		{SemInstant, "instant"},
		{SemDiscrete, "discrete"},
		{Sem(0), "sem-0"},
		{AttrNone, "none"},
		{AttrUserName, "username"},
		{AttrUserID, "userid"},
		{AttrGroupID, "groupid"},
		{AttrProcessID, "processid"},
		{AttrContainer, "container"},
		{AttrCode(1), "attr-1"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%T(%d)", tt.v, tt.v), func(t *testing.T) {
			if got := tt.v.String(); got != tt.text {
				t.Errorf("got %q, want %q", got, tt.text)
			}
		})
	}
}

func TestProfileIncludes(t *testing.T) {
	const in, out, other = InDom(1), InDom(2), InDom(3)
	p := &Profile{InDoms: []InDomProfile{
		{InDom: in, Exclude: true, Insts: []int32{5, -7}},
		{InDom: out, Insts: []int32{5}},
		{InDom: in},
	}}
	tests := []struct {
		indom InDom
		inst  int32
		want  bool
	}{
		{in, 5, true}, {in, -7, true}, {in, 6, false},
		{out, 5, false}, {out, 6, true},
		{other, 5, true},
	}
	for _, exclude := range []bool{false, true} {
		p.Exclude = exclude
		for _, tt := range tests {
			want := tt.want
			if tt.indom == other {
				want = !exclude
			}
			if got := p.Includes(tt.indom, tt.inst); got != want {
				t.Errorf("exclude %v, indom %d, inst %d: got %v, want %v", exclude, tt.indom, tt.inst, got, want)
			}
		}
		if got := p.For(other).All(); got == exclude {
			t.Errorf("exclude %v: All is %v", exclude, got)
		}
	}
	if p.For(in).All() || p.For(out).All() {
		t.Error("All with exceptions")
	}
}

// A profile of many instances, which is searched, selects the same instances.
func TestProfileMany(t *testing.T) {
	for _, exclude := range []bool{false, true} {
		p := &Profile{InDoms: []InDomProfile{{InDom: 1, Exclude: exclude}, {InDom: 2, Insts: []int32{1}}}}
		for i := range int32(100) {
			p.InDoms[0].Insts = append(p.InDoms[0].Insts, 3*(i*37%100))
		}
		b, err := Append(nil, 0, p)
		if err != nil {
			t.Fatal(err)
		}
		_, m, err := Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		parsed := m.(*Profile)
		if parsed.InDoms[0].sorted == nil || parsed.InDoms[1].sorted != nil {
			t.Error("sorted when it should not be, or the reverse")
		}
		for inst := int32(-3); inst < 303; inst++ {
			listed := inst >= 0 && inst < 300 && inst%3 == 0
			if got, was := parsed.Includes(1, inst), p.Includes(1, inst); got != was || got != (listed == exclude) {
				t.Fatalf("exclude %v, inst %d: got %v, and %v before", exclude, inst, got, was)
			}
		}
		if b2, err := Append(nil, 0, parsed); err != nil || !bytes.Equal(b, b2) {
			t.Errorf("%v: instances are in another order", err)
		}
	}
}

// A profile of many instance domains, which has a hash table, selects the same
// instances. The first of several entries for an instance domain counts.
func TestProfileManyInDoms(t *testing.T) {
	for _, n := range []int{1, manyInDoms - 1, manyInDoms, manyInDoms + 1, 64, 65, 1000, 4094} {
		p := &Profile{Exclude: true}
		for i := range int32(n) {
			// Each number twice, and those that differ only in high bits.
			indom := NewInDom(int(i)%7, int(i/2*1024&0x3fffff))
			p.InDoms = append(p.InDoms, InDomProfile{InDom: indom, Exclude: true, Insts: []int32{i}}, InDomProfile{InDom: indom})
		}
		p.InDoms = p.InDoms[:n]
		b, err := Append(nil, 0, p)
		if err != nil {
			t.Fatal(err)
		}
		parsed := new(Profile)
		if _, err := ParseInto(b, parsed); err != nil {
			t.Fatal(err)
		}
		if many := n >= manyInDoms; many != (parsed.table != nil) {
			t.Errorf("%d instance domains: there is a table: %v", n, !many)
		}
		for _, ip := range p.InDoms {
			for _, indom := range []InDom{ip.InDom, ip.InDom ^ 1, ip.InDom ^ 1<<30} {
				if got, want := parsed.For(indom), p.For(indom); got.InDom != indom || got.Exclude != want.Exclude || !slices.Equal(got.Insts, want.Insts) {
					t.Fatalf("%d instance domains, %v: got %v, want %v", n, indom, got, want)
				}
			}
		}
	}
}

func TestAppendDump(t *testing.T) {
	tests := []struct{ wire, want string }{
		{"00000010 00007000 00000000 ffffcfba", "ERROR len=16 from=0\n000: 00000010 00007000 00000000 ffffcfba\n"},
		{"", "0 bytes of a PDU\n"},
		{"0001", "2 bytes of a PDU\n000: 0001\n"},
		{
			"00000025 00007011 00000001 00000000 00000001 00000002 00000003 00000004 00000005 61",
			"ATTR len=37 from=1\n000: 00000025 00007011 00000001 00000000 00000001 00000002 00000003 00000004\n008: 00000005 61\n",
		},
		{"7fffffff 0000700b 00000000", "TYPE-0x700b len=2147483647 from=0 (12 bytes)\n000: 7fffffff 0000700b 00000000\n"},
	}
	for _, tt := range tests {
		if got := string(AppendDump([]byte("> "), unhex(t, tt.wire))); got != "> "+tt.want {
			t.Errorf("got %q, want %q", got, "> "+tt.want)
		}
	}
}
