package peertest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/mmv"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
)

// mmvReaders starts C pmcd and ours with PCP's agent mmv, and ours with the one that is built
// in, and calls f for each.
func mmvReaders(t *testing.T, f func(t *testing.T, d *peer.Daemon, dir string)) {
	peer.Require(t)
	ours, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	for _, reader := range []struct{ name, pmcd, agent string }{
		{"C", peer.CPmcd, peer.PMDAs + "mmv/pmda_mmv.so"},
		{"DSO", ours, peer.PMDAs + "mmv/pmda_mmv.so"},
		{"built-in", ours, "/nonexistent/pmda_mmv.so"},
	} {
		t.Run(reader.name, func(t *testing.T) {
			d := peer.StartT(t, reader.pmcd, peer.Config{Agents: []string{"mmv 70 dso mmv_init " + reader.agent}})
			dir := filepath.Join(d.Dir, "tmp", "mmv")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			f(t, d, dir)
		})
	}
}

// pminfoOf returns what pminfo prints, by metric.
func pminfoOf(t *testing.T, d *peer.Daemon, args string) map[string]string {
	t.Helper()
	o, err := d.Run(t.Context(), peer.TCP4, words("pminfo -h {host} "+args))
	if err != nil {
		t.Fatal(err)
	}
	metrics := make(map[string]string)
	for _, r := range peer.Metrics(o.Stdout) {
		var lines []string
		for _, line := range r.Lines {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		metrics[r.Key] = strings.Join(lines, "\n")
	}
	return metrics
}

// wantPminfo fails if pminfo prints something else about one of the metrics.
func wantPminfo(t *testing.T, d *peer.Daemon, args string, want map[string]string) {
	t.Helper()
	got := pminfoOf(t, d, args)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("pminfo %s: %s\n got %q\nwant %q", args, name, got[name], text)
		}
	}
}

// What agents/mmv writes, PCP's agent serves.
func TestMMVWriter(t *testing.T) {
	mmvReaders(t, func(t *testing.T, d *peer.Daemon, dir string) {
		r := mmv.Must(mmv.New(mmv.Config{Dir: dir, Name: "go.writer", Cluster: 9, Labels: mmv.Labels{"of_cluster": []int{1, 2}}}))
		counter := mmv.Must(r.Counter(mmv.Metric{Name: "counter", Units: pdu.Count, OneLine: "One line", Text: "Full text",
			Labels: mmv.Labels{"of_item": mmv.OptionalLabel{Value: "x<y"}, "longest": strings.Repeat("x", 243-len(`{"longest":""}`))}}))
		counter.Add(1<<64 - 1)
		floatCounter := mmv.Must(r.FloatCounter(mmv.Metric{Name: "float.counter", Units: pdu.Sec}))
		floatCounter.Add(1.5)
		gauge := mmv.Must(r.Gauge(mmv.Metric{Name: "gauge", Units: pdu.Byte, Item: 1023, Sem: pdu.SemDiscrete}))
		gauge.Set(-1)
		floatGauge := mmv.Must(r.FloatGauge(mmv.Metric{Name: "float.gauge"}))
		floatGauge.Set(0.25)
		text := mmv.Must(r.String(mmv.Metric{Name: "string"}))
		long := strings.Repeat("y", mmv.MaxString)
		busy := mmv.Must(r.Elapsed(mmv.Metric{Name: "busy", OneLine: strings.Repeat("z", 255)}))
		insts := mmv.Must(r.Instances(mmv.InDom{Serial: 2047, Names: []string{"one", "two 2"}, Labels: mmv.Labels{"of_indom": true},
			InstLabels: func(name string) mmv.Labels { return mmv.Labels{"of_instance": name} }}))
		values := mmv.Must(insts.Counter(mmv.Metric{Name: "insts.counter", Item: 1}))
		texts := mmv.Must(insts.String(mmv.Metric{Name: "insts.string"}))
		for _, err := range []error{text.Set(long), texts.At("one").Set("1"), texts.At("two 2").Set("2"), r.Publish()} {
			if err != nil {
				t.Fatal(err)
			}
		}
		defer r.Close()
		const (
			noHelp  = "One-line Help: Error: One-line or help text is not available"
			noText  = "Full Help: Error: One-line or help text is not available"
			noInDom = "InDom: PM_INDOM_NULL 0xffffffff"
			p       = "mmv.go.writer."
		)
		wantPminfo(t, d, "-dtTmf mmv.go", map[string]string{
			p + "counter": p + "counter PMID: 70.9.2 [One line]\nData Type: 64-bit unsigned int  " + noInDom +
				"\nSemantics: counter  Units: count\nHelp:\nFull text\nvalue 18446744073709551615",
			p + "float.counter": p + "float.counter PMID: 70.9.3 " + noHelp + "\nData Type: double  " + noInDom +
				"\nSemantics: counter  Units: sec\n" + noText + "\nvalue 1.5",
			p + "gauge": p + "gauge PMID: 70.9.1023 " + noHelp + "\nData Type: 64-bit int  " + noInDom +
				"\nSemantics: discrete  Units: byte\n" + noText + "\nvalue -1",
			p + "float.gauge": p + "float.gauge PMID: 70.9.4 " + noHelp + "\nData Type: double  " + noInDom +
				"\nSemantics: instant  Units: none\n" + noText + "\nvalue 0.25",
			p + "string": p + "string PMID: 70.9.5 " + noHelp + "\nData Type: string  " + noInDom +
				"\nSemantics: instant  Units: none\n" + noText + "\nvalue \"" + long + "\"",
			p + "busy": p + "busy PMID: 70.9.6 [" + strings.Repeat("z", 255) + "]\nData Type: 64-bit int  " + noInDom +
				"\nSemantics: counter  Units: microsec\nHelp:\n" + strings.Repeat("z", 255) + "\nvalue 0",
			p + "insts.counter": p + "insts.counter PMID: 70.9.1 " + noHelp + "\nData Type: 64-bit unsigned int  InDom: 70.20479 0x11804fff" +
				"\nSemantics: counter  Units: none\n" + noText + "\ninst [0 or \"one\"] value 0\ninst [1 or \"two 2\"] value 0",
		})
		labels := pminfoOf(t, d, "-l mmv.go")
		for name, want := range map[string]string{
			p + "counter":       `"longest":"xxx`,
			p + "string":        `"of_cluster":[1,2]`,
			p + "insts.counter": `"of_indom":true`,
			p + "insts.string":  `"of_instance":"two 2"`,
		} {
			if !strings.Contains(labels[name], want) {
				t.Errorf("labels of %s: no %s in %s", name, want, labels[name])
			}
		}
		if text := labels[p+"counter"]; !strings.Contains(text, `"of_item":"x<y"`) || !strings.Contains(text, `"of_cluster"`) {
			t.Errorf("labels of counter: %s", text)
		}

		// Updates are seen, also of strings, of which there are two copies, and after the file
		// was replaced.
		for i := range 4 {
			counter.Inc()
			floatCounter.Add(1)
			gauge.Add(2)
			floatGauge.Add(-1)
			values.At("two 2").Add(10)
			if err := texts.At("one").Set(fmt.Sprint("text ", i)); err != nil {
				t.Fatal(err)
			}
			wantPminfo(t, d, "-f mmv.go", map[string]string{
				p + "counter":       fmt.Sprintf("%scounter\nvalue %d", p, i),
				p + "float.counter": fmt.Sprintf("%sfloat.counter\nvalue %v", p, 2.5+float64(i)),
				p + "gauge":         fmt.Sprintf("%sgauge\nvalue %d", p, 1+2*i),
				p + "float.gauge":   fmt.Sprintf("%sfloat.gauge\nvalue %v", p, -0.75-float64(i)),
				p + "insts.counter": fmt.Sprintf("%sinsts.counter\ninst [0 or \"one\"] value 0\ninst [1 or \"two 2\"] value %d", p, 10*(i+1)),
				p + "insts.string":  fmt.Sprintf("%sinsts.string\ninst [0 or \"one\"] value \"text %d\"\ninst [1 or \"two 2\"] value \"2\"", p, i),
			})
			if i == 1 {
				if err := insts.Add("more"); err != nil {
					t.Fatal(err)
				}
				wantPminfo(t, d, "-f mmv.go", map[string]string{
					p + "insts.counter": p + "insts.counter\ninst [0 or \"one\"] value 0\ninst [1 or \"two 2\"] value 20\ninst [2 or \"more\"] value 0",
				})
				if err := insts.Remove("more"); err != nil {
					t.Fatal(err)
				}
			}
		}

		elapsed := func() int {
			text := pminfoOf(t, d, "-f "+p+"busy")[p+"busy"]
			n, err := strconv.Atoi(strings.TrimPrefix(text, p+"busy\nvalue "))
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			return n
		}
		busy.Start()
		first := elapsed()
		if second := elapsed(); first <= 0 || second <= first {
			t.Errorf("elapsed time %d, then %d", first, second)
		}
		busy.Stop()
		if n := elapsed(); int64(n) != busy.Value().Microseconds() || n <= first {
			t.Errorf("elapsed time %d at the end, want %v", n, busy.Value())
		}

		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		o, err := d.Run(t.Context(), peer.TCP4, words("pminfo -h {host} mmv.go"))
		if err != nil || !strings.Contains(o.Stderr, "Unknown metric name") {
			t.Errorf("after Close: %v, %v", o, err)
		}
	})
}

// Absent values, empty instance domains and names without a prefix.
func TestMMVWriterFlags(t *testing.T) {
	mmvReaders(t, func(t *testing.T, d *peer.Daemon, dir string) {
		r := mmv.Must(mmv.New(mmv.Config{Dir: dir, Name: "flags", NoPrefix: true, Sentinel: true, Persistent: true}))
		counter := mmv.Must(r.Counter(mmv.Metric{Name: "flag.counter"}))
		text := mmv.Must(r.String(mmv.Metric{Name: "flag.string"}))
		mmv.Must(r.Elapsed(mmv.Metric{Name: "flag.elapsed"}))
		insts := mmv.Must(r.Instances(mmv.InDom{}))
		values := mmv.Must(insts.Gauge(mmv.Metric{Name: "flag.insts"}))
		if err := r.Publish(); err != nil {
			t.Fatal(err)
		}
		absent := map[string]string{}
		for _, name := range []string{"counter", "string", "elapsed", "insts"} {
			absent["mmv.flag."+name] = "mmv.flag." + name + "\nNo value(s) available!"
		}
		wantPminfo(t, d, "-f mmv.flag", absent)
		if err := text.Set("x"); err != nil {
			t.Fatal(err)
		}
		if err := insts.Add("a", "b"); err != nil {
			t.Fatal(err)
		}
		counter.Inc()
		values.At("a").Add(5)
		present := map[string]string{
			"mmv.flag.counter": "mmv.flag.counter\nvalue 1", "mmv.flag.string": "mmv.flag.string\nvalue \"x\"",
			"mmv.flag.insts": "mmv.flag.insts\ninst [0 or \"a\"] value 5",
		}
		wantPminfo(t, d, "-f mmv.flag", present)
		counter.Unset()
		wantPminfo(t, d, "-f mmv.flag.counter", map[string]string{"mmv.flag.counter": absent["mmv.flag.counter"]})
		counter.Inc()
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		wantPminfo(t, d, "-f mmv.flag", present) // the file is there
	})
}

// PCP's mmvdump reads all of a file, and finds nothing wrong.
func TestMMVWriterDump(t *testing.T) {
	peer.Require(t)
	dir := t.TempDir()
	r := mmv.Must(mmv.New(mmv.Config{Dir: dir, Name: "dump", Cluster: 4095, Persistent: true, Labels: mmv.Labels{"l": 1}}))
	mmv.Must(r.Counter(mmv.Metric{Name: "counter", Units: pdu.Count, OneLine: "one line"})).Add(5)
	insts := mmv.Must(r.Instances(mmv.InDom{Names: []string{"a", "b"}}))
	text := mmv.Must(insts.String(mmv.Metric{Name: "texts", Text: "text"}))
	if err := r.Publish(); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := text.At("b").Set("B"); err != nil {
		t.Fatal(err)
	}
	d := servers(t).C
	o, err := d.Run(t.Context(), peer.TCP4, peer.Client{Args: []string{peer.PMDAs + "mmv/mmvdump", filepath.Join(dir, "dump")}})
	if err != nil || o.Code != 0 || o.Stderr != "" {
		t.Fatalf("%v\n%v", err, o)
	}
	for _, want := range []string{
		"Version    = 3\n", "Cluster    = 4095\n", "Flags      = 0x0 (none)\n", "TOC count  = 6\n",
		"] counter = 5\n", `] texts[0 or "a"] = ""`, `] texts[1 or "b"] = "B"`, "shorttext=one line\n", "helptext=text\n", `{"l":1}`,
	} {
		if !strings.Contains(o.Stdout, want) {
			t.Errorf("no %q in\n%s", want, o.Stdout)
		}
	}
}
