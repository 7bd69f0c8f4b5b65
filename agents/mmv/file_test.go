package mmv

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// contents is what a test has read in a file.
type contents struct {
	header mmvformat.Header
	values map[string]string // "metric" or "metric[instance]" to the value
	lines  []string          // all entries but values and strings
}

// read reads a file, and fails if it is not complete.
func read(t testing.TB, path string) *contents {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, b)
}

func decode(t testing.TB, b []byte) *contents {
	t.Helper()
	get := func(at uint64, v any) {
		t.Helper()
		if at > uint64(len(b)) {
			t.Fatalf("offset %d in a file of %d bytes", at, len(b))
		}
		if _, err := binary.Decode(b[at:], binary.NativeEndian, v); err != nil {
			t.Fatalf("offset %d in a file of %d bytes: %v", at, len(b), err)
		}
	}
	str := func(at uint64) string {
		t.Helper()
		if at == 0 {
			return ""
		}
		var s mmvformat.Text
		get(at, &s)
		text, _, ok := bytes.Cut(s[:], []byte{0})
		if !ok {
			t.Fatalf("no zero byte in the string at %d", at)
		}
		return string(text)
	}
	c := &contents{values: make(map[string]string)}
	get(0, &c.header)
	if string(c.header.Magic[:]) != mmvformat.Magic || c.header.Version != 3 ||
		c.header.Generation1 == 0 || c.header.Generation1 != c.header.Generation2 {
		t.Fatalf("header %+v", c.header)
	}
	metrics, insts := make(map[uint64]mmvformat.MetricV2), make(map[uint64]mmvformat.InstanceV2)
	end := uint64(0)
	for i := range uint64(c.header.Sections) {
		var s mmvformat.Section
		get(mmvformat.HeaderSize+i*mmvformat.SectionSize, &s)
		if i > 0 && s.Offset != end {
			t.Errorf("section %d begins at %d, and the one before ends at %d", s.Type, s.Offset, end)
		}
		at := s.Offset
		for range s.Count {
			switch s.Type {
			case mmvformat.InDoms:
				var d mmvformat.InDom
				get(at, &d)
				c.lines = append(c.lines, fmt.Sprintf("indom %d: %d instances, %q %q", d.Serial, d.Count, str(d.ShortText), str(d.HelpText)))
				at += mmvformat.InDomSize
			case mmvformat.Instances:
				var inst mmvformat.InstanceV2
				var d mmvformat.InDom
				get(at, &inst)
				get(inst.InDom, &d)
				if at < d.Instances || at >= d.Instances+uint64(d.Count)*mmvformat.InstanceV2Size {
					t.Errorf("the instance at %d is not one of its instance domain: %+v", at, d)
				}
				c.lines = append(c.lines, fmt.Sprintf("instance %d of %d: %q", inst.ID, d.Serial, str(inst.Name)))
				insts[at] = inst
				at += mmvformat.InstanceV2Size
			case mmvformat.Metrics:
				var m mmvformat.MetricV2
				get(at, &m)
				c.lines = append(c.lines, fmt.Sprintf("metric %d: %q type %d, %v, %v, indom %d, %q %q", m.Item, str(m.Name), m.Type,
					pdu.Sem(m.Sem), pdu.Units(m.Units), m.InDom, str(m.ShortText), str(m.HelpText)))
				metrics[at] = m
				at += mmvformat.MetricV2Size
			case mmvformat.Values:
				var v mmvformat.Value
				get(at, &v)
				m, ok := metrics[v.Metric]
				name := str(m.Name)
				if v.Instance != 0 {
					inst, ok2 := insts[v.Instance]
					ok = ok && ok2
					name += "[" + str(inst.Name) + "]"
				}
				if !ok {
					t.Errorf("the value at %d is of no metric or instance: %+v", at, v)
				}
				bits := binary.NativeEndian.Uint64(v.Data[:])
				switch m.Type {
				case mmvformat.Int64:
					c.values[name] = fmt.Sprint(int64(bits))
				case mmvformat.Uint64:
					c.values[name] = fmt.Sprint(bits)
				case mmvformat.Double:
					c.values[name] = fmt.Sprint(math.Float64frombits(bits))
				case mmvformat.String:
					c.values[name] = str(uint64(v.Extra))
				case mmvformat.Elapsed:
					c.values[name] = fmt.Sprintf("%d %d", int64(bits), v.Extra)
				}
				at += mmvformat.ValueSize
			case mmvformat.Strings:
				str(at)
				at += mmvformat.StringSize
			case mmvformat.Labels:
				var l mmvformat.Label
				get(at, &l)
				payload, _, ok := strings.Cut(string(l.Payload[:]), "\x00")
				if !ok {
					t.Errorf("no zero byte in a label")
				}
				c.lines = append(c.lines, fmt.Sprintf("label %d of %d, %d: %s", l.Flags, l.Identity, l.Instance, payload))
				at += mmvformat.LabelSize
			}
		}
		end = at
	}
	if end != uint64(len(b)) {
		t.Errorf("the last section ends at %d in a file of %d bytes", end, len(b))
	}
	return c
}

// publish publishes the metrics and returns the name of the file.
func publish(t testing.TB, r *Registry) string {
	t.Helper()
	if err := r.Publish(); err != nil {
		t.Fatal(err)
	}
	path, err := r.Path()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// wantValues fails if a file has other values. They are pairs of a name and a value.
func wantValues(t testing.TB, path string, pairs ...string) {
	t.Helper()
	want := make(map[string]string)
	for pair := range slices.Chunk(pairs, 2) {
		want[pair[0]] = pair[1]
	}
	if got := read(t, path).values; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("values\n got %q\nwant %q", got, want)
	}
}

// all defines metrics of all kinds.
func all(dir string, conf Config) *Registry {
	conf.Dir, conf.Name = dir, "all"
	r := Must(New(conf))
	Must(r.Counter(Metric{Name: "counter", Units: pdu.Count, OneLine: "short", Text: "long", Labels: Labels{"b": 1, "a": OptionalLabel{"x<y"}}})).Add(7)
	Must(r.FloatCounter(Metric{Name: "float.counter", Units: pdu.Sec})).Add(1.5)
	Must(r.Gauge(Metric{Name: "gauge", Units: pdu.Byte, Item: 1023, Sem: pdu.SemDiscrete})).Set(-5)
	Must(r.FloatGauge(Metric{Name: "float.gauge"})).Set(0.25)
	Must(r.String(Metric{Name: "string"})).Set("text")
	Must(r.Elapsed(Metric{Name: "elapsed"}))
	x := Must(r.Instances(InDom{Serial: 3, Names: []string{"one", "two"}, OneLine: "instances", Text: "more", Labels: Labels{"d": true},
		InstLabels: func(name string) Labels { return Labels{"name": name} }}))
	Must(x.Counter(Metric{Name: "x.counter", Item: 1})).At("one").Inc()
	Must(x.FloatCounter(Metric{Name: "x.float.counter"})).At("two").Add(2.5)
	Must(x.Gauge(Metric{Name: "x.gauge"})).At("one").Dec()
	Must(x.FloatGauge(Metric{Name: "x.float.gauge"})).At("two").Add(-0.5)
	s := Must(x.String(Metric{Name: "x.string"}))
	s.At("one").Set("1")
	s.At("two").Set("2")
	Must(x.Elapsed(Metric{Name: "x.elapsed"}))
	return r
}

func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := publish(t, all(dir, Config{Cluster: 9, Labels: Labels{"app": []int{1, 2}}}))
	c := read(t, path)
	if h := c.header; h.Flags != mmvformat.FlagProcess || h.Process != int32(os.Getpid()) || h.Cluster != 9 {
		t.Errorf("header %+v", h)
	}
	wantValues(t, path, "counter", "7", "float.counter", "1.5", "gauge", "-5", "float.gauge", "0.25", "string", "text", "elapsed", "0 0",
		"x.counter[one]", "1", "x.counter[two]", "0", "x.float.counter[one]", "0", "x.float.counter[two]", "2.5",
		"x.gauge[one]", "-1", "x.gauge[two]", "0", "x.float.gauge[one]", "0", "x.float.gauge[two]", "-0.5",
		"x.string[one]", "1", "x.string[two]", "2", "x.elapsed[one]", "0 0", "x.elapsed[two]", "0 0")
	want := `indom 3: 2 instances, "instances" "more"
instance 0 of 3: "one"
instance 1 of 3: "two"
metric 2: "counter" type 3, counter, count, indom -1, "short" "long"
metric 3: "float.counter" type 5, counter, sec, indom -1, "" ""
metric 1023: "gauge" type 2, discrete, byte, indom -1, "" ""
metric 4: "float.gauge" type 5, instant, none, indom -1, "" ""
metric 5: "string" type 6, instant, none, indom -1, "" ""
metric 6: "elapsed" type 9, counter, microsec, indom -1, "" ""
metric 1: "x.counter" type 3, counter, none, indom 3, "" ""
metric 7: "x.float.counter" type 5, counter, none, indom 3, "" ""
metric 8: "x.gauge" type 2, instant, none, indom 3, "" ""
metric 9: "x.float.gauge" type 5, instant, none, indom 3, "" ""
metric 10: "x.string" type 6, instant, none, indom 3, "" ""
metric 11: "x.elapsed" type 9, counter, microsec, indom 3, "" ""
label 8 of 9, -1: {"app":[1,2]}
label 144 of 2, -1: {"a":"x<y"}
label 16 of 2, -1: {"b":1}
label 4 of 3, -1: {"d":true}
label 32 of 3, 0: {"name":"one"}
label 32 of 3, 1: {"name":"two"}`
	if got := strings.Join(c.lines, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o644 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

func TestFlags(t *testing.T) {
	for _, test := range []struct {
		conf Config
		want uint32
	}{
		{Config{}, mmvformat.FlagProcess},
		{Config{Persistent: true}, 0},
		{Config{Persistent: true, NoPrefix: true}, mmvformat.FlagNoPrefix},
		{Config{Persistent: true, Sentinel: true}, mmvformat.FlagSentinel},
	} {
		if got := read(t, publish(t, all(t.TempDir(), test.conf))).header.Flags; got != test.want {
			t.Errorf("%+v: flags %d, want %d", test.conf, got, test.want)
		}
	}
}
