package mmv

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// What a file cannot represent is an error, and what is just within the limits is not.
func TestLimits(t *testing.T) {
	text := func(n int) string { return strings.Repeat("x", n) }
	// {"l":"..."} has n bytes.
	label := func(n int) Labels { return Labels{"l": text(n - 8)} }
	labels := func(n int) Labels {
		l := make(Labels)
		for i := range n {
			l[fmt.Sprintf("l%d", i)] = i
		}
		return l
	}
	many := func(n int) func(r *Registry) {
		return func(r *Registry) {
			for i := range n {
				Must(r.Gauge(Metric{Name: fmt.Sprintf("m%d", i)}))
			}
		}
	}
	for _, test := range []struct {
		name   string
		conf   Config
		define func(r *Registry)
		want   string // "" is no error
	}{
		{"no metrics", Config{Name: "f"}, func(*Registry) {}, "mmv: file f: no metrics"},
		{"no file name", Config{}, many(1), "mmv: file : a name is a letter"},
		{"file name with a slash", Config{Name: "a/b"}, many(1), "mmv: file a/b: a name is a letter"},
		{"file name with dots", Config{Name: "a.b_1.c"}, many(1), ""},
		{"file name that ends in a dot", Config{Name: "a."}, many(1), "mmv: file a.: a name is a letter"},
		{"file name of the agent", Config{Name: "control"}, many(1), "mmv: file control: the agent has metrics of its own"},
		{"cluster", Config{Name: "f", Cluster: 4095}, many(1), ""},
		{"large cluster", Config{Name: "f", Cluster: 4096}, many(1), "mmv: file f: cluster 4096 is not in the range"},
		{"negative cluster", Config{Name: "f", Cluster: -1}, many(1), "mmv: file f: cluster -1 is not in the range"},
		{"labels of no cluster", Config{Name: "f", Labels: labels(1)}, many(1), "mmv: file f: labels need a cluster"},
		{"255 labels", Config{Name: "f", Cluster: 1, Labels: labels(255)}, many(1), ""},
		{"256 labels", Config{Name: "f", Cluster: 1, Labels: labels(256)}, many(1), "mmv: file f: 256 labels"},
		{"256 labels in all", Config{Name: "f", Cluster: 1, Labels: labels(255)}, func(r *Registry) {
			Must(r.Gauge(Metric{Name: "m", Labels: labels(1)}))
		}, "mmv: metric m: 256 labels"},
		{"label name", Config{Name: "f", Cluster: 1, Labels: Labels{"a-b": 1}}, many(1), `mmv: file f: label "a-b": a name is`},
		{"label without a JSON value", Config{Name: "f", Cluster: 1, Labels: Labels{"a": func() {}}}, many(1), "mmv: file f: label a: json:"},
		{"label with an object", Config{Name: "f", Cluster: 1, Labels: Labels{"a": map[string]int{}}}, many(1), "mmv: file f: label a: a label cannot have a value of type map"},
		{"label of 243 bytes", Config{Name: "f", Cluster: 1, Labels: label(243)}, many(1), ""},
		{"label of 244 bytes", Config{Name: "f", Cluster: 1, Labels: label(244)}, many(1), "mmv: file f: label l: 244 bytes, but it has at most 243"},
		{"1023 metrics", Config{Name: "f"}, many(1023), ""},
		{"1024 metrics", Config{Name: "f"}, many(1024), "mmv: metric m1023: a file has at most 1023 metrics"},
		{"metric name of 255 bytes", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: text(255)})) }, ""},
		{"metric name of 256 bytes", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: text(256)})) }, ": a name of 256 bytes"},
		{"no metric name", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{})) }, "mmv: metric : a name is"},
		{"metric name with a digit first", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a.1"})) }, "mmv: metric a.1: a name is"},
		{"metric name with a hyphen", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a-b"})) }, "mmv: metric a-b: a name is"},
		{"metric name twice", Config{Name: "f"}, func(r *Registry) { many(1)(r); many(1)(r) }, "mmv: metric m0: a metric of this name"},
		{"control with a prefix", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "control.files"})) }, ""},
		{"control without a prefix", Config{Name: "f", NoPrefix: true}, func(r *Registry) { Must(r.Gauge(Metric{Name: "control.files"})) }, "mmv: metric control.files: the agent has"},
		{"item twice", Config{Name: "f"}, func(r *Registry) {
			Must(r.Gauge(Metric{Name: "a", Item: 5}))
			Must(r.Gauge(Metric{Name: "b", Item: 5}))
		}, "mmv: metric b: item 5 is in use"},
		{"item", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a", Item: 1024})) }, "mmv: metric a: item 1024 is not in the range"},
		{"negative item", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a", Item: -1})) }, "mmv: metric a: item -1 is not in the range"},
		{"semantics", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a", Sem: 2})) }, "mmv: metric a: 2 is not a semantics"},
		{"units of elapsed time", Config{Name: "f"}, func(r *Registry) { Must(r.Elapsed(Metric{Name: "a", Units: 1})) }, "mmv: metric a: elapsed time is"},
		{"help of 255 bytes", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a", OneLine: text(255), Text: text(255)})) }, ""},
		{"two lines", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a", OneLine: "b\nc"})) }, "mmv: metric a: a one-line help text has several lines"},
		{"two lines of an instance domain", Config{Name: "f"}, func(r *Registry) { Must(r.Instances(InDom{Serial: 3, OneLine: "b\n"})) }, "mmv: instance domain 3: a one-line help text has several lines"},
		{"one line of 256 bytes", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a", OneLine: text(256)})) }, "mmv: metric a: a one-line help text of 256 bytes"},
		{"help of 256 bytes", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a", Text: text(256)})) }, "mmv: metric a: a help text of 256 bytes"},
		{"help with a zero byte", Config{Name: "f"}, func(r *Registry) { Must(r.Gauge(Metric{Name: "a", Text: "a\x00b"})) }, "mmv: metric a: a help text has a zero byte"},
		{"serial", Config{Name: "f"}, func(r *Registry) { Must(Must(r.Instances(InDom{Serial: 2047})).Gauge(Metric{Name: "a"})) }, ""},
		{"large serial", Config{Name: "f"}, func(r *Registry) { Must(Must(r.Instances(InDom{Serial: 2048})).Gauge(Metric{Name: "a"})) }, "mmv: instance domain 2048: the serial is not in the range"},
		{"negative serial", Config{Name: "f"}, func(r *Registry) { Must(Must(r.Instances(InDom{Serial: -1})).Gauge(Metric{Name: "a"})) }, "mmv: instance domain -1: the serial is not in the range"},
		{"serial twice", Config{Name: "f"}, func(r *Registry) { Must(r.Instances(InDom{Serial: 1})); Must(r.Instances(InDom{Serial: 1})) }, "mmv: instance domain 1: the serial is in use"},
		{"instance name of 255 bytes", Config{Name: "f"}, func(r *Registry) { many(1)(r); Must(r.Instances(InDom{Names: []string{text(255)}})) }, ""},
		{"instance name of 256 bytes", Config{Name: "f"}, func(r *Registry) { Must(r.Instances(InDom{Names: []string{text(256)}})) }, "the name of an instance of 256 bytes"},
		{"no instance name", Config{Name: "f"}, func(r *Registry) { Must(r.Instances(InDom{Names: []string{""}})) }, "an instance without a name"},
		{"text of an instance domain", Config{Name: "f"}, func(r *Registry) { Must(r.Instances(InDom{Text: text(256)})) }, "a help text of 256 bytes"},
		{"labels of an instance", Config{Name: "f"}, func(r *Registry) {
			Must(r.Instances(InDom{Names: []string{"a"}, InstLabels: func(string) Labels { return label(244) }}))
		}, `instance "a": label l: 244 bytes`},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.conf.Dir = t.TempDir()
			r, err := New(test.conf)
			if err == nil {
				err = defined(func() { test.define(r) })
				if perr := r.Publish(); err == nil {
					err = perr
				}
				defer r.Close()
			}
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
			if err == nil {
				path, _ := r.Path()
				read(t, path)
			}
		})
	}
}

// defined returns the error of Must in f.
func defined(f func()) (err error) {
	defer func() { err, _ = recover().(error) }()
	f()
	return nil
}

// An error has all that is wrong, and updates of what is not defined are ignored.
func TestErrors(t *testing.T) {
	if _, err := New(Config{Name: "-", Cluster: -1}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v", err)
	}
	r := Must(New(Config{Name: "f", Dir: t.TempDir()}))
	bad, err := r.Counter(Metric{Name: "-a", Item: -1})
	if err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("got %v", err)
	}
	bad.Inc()
	values, err := Must(r.Instances(InDom{Names: []string{"a"}})).Counter(Metric{Name: "-"})
	if err == nil {
		t.Error("a name is valid")
	}
	values.At("a").Inc()
	if bad.Value() != 0 || values.At("a").Value() != 0 {
		t.Errorf("values %d, %d", bad.Value(), values.At("a").Value())
	}
}

// What is invalid and defined after Publish is not in the file that Add writes.
func TestLateErrors(t *testing.T) {
	r := Must(New(Config{Name: "f", Dir: t.TempDir()}))
	x := Must(r.Instances(InDom{}))
	Must(x.Counter(Metric{Name: "good"}))
	path := publish(t, r)
	defer r.Close()
	if _, err := r.Counter(Metric{Name: "-"}); err == nil {
		t.Error("a name is valid")
	}
	if _, err := r.Instances(InDom{Serial: -1, Names: []string{"b"}}); err == nil {
		t.Error("a serial is valid")
	}
	if err := x.Add("a"); err != nil {
		t.Error(err)
	}
	wantValues(t, path, "good[a]", "0")
	if err := r.Publish(); err != nil {
		t.Error(err)
	}
}

func TestStringLimits(t *testing.T) {
	r := Must(New(Config{Name: "f", Dir: t.TempDir()}))
	s := Must(r.String(Metric{Name: "s"}))
	path := publish(t, r)
	defer r.Close()
	if MaxString != mmvformat.MaxStringValue {
		t.Errorf("MaxString is %d", MaxString)
	}
	long := strings.Repeat("x", MaxString)
	for _, test := range []struct {
		text string
		ok   bool
	}{{"short", true}, {long, true}, {long + "x", false}, {"a\x00b", false}, {"", true}, {"é", true}} {
		before := s.Value()
		if err := s.Set(test.text); (err == nil) != test.ok {
			t.Errorf("%q: %v", test.text, err)
		}
		want := test.text
		if !test.ok {
			want = before
		}
		if s.Value() != want {
			t.Errorf("value %q, want %q", s.Value(), want)
		}
		wantValues(t, path, "s", want)
	}
}
