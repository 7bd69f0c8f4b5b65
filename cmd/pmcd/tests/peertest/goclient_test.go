package peertest

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// goClient returns a client of package pmapi.
func goClient(t *testing.T, host string, o pmapi.Options) *pmapi.Client {
	t.Helper()
	c, err := pmapi.Dial(t.Context(), host, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// ownLines are lines of pminfo that are of no interest: empty ones, and metrics that libpcp
// adds to the name space.
var ownLines = regexp.MustCompile(`(?m)^(event\.(flags|missed))?\n`)

// sameAsPCP compares the output of one of PCP's clients with that of a function.
func sameAsPCP(t *testing.T, target clientTarget, cl peer.Client, cmp peer.Comparison, f func(*testing.T, *pmapi.Client) string) {
	t.Helper()
	c := goClient(t, target.host, target.options)
	same := peer.Pair{C: new(peer.Daemon), Ours: new(peer.Daemon)}
	same.CompareFunc(t, func(which *peer.Daemon) (peer.Output, error) {
		if which == same.C {
			o, err := target.run(t.Context(), cl)
			o.Stdout = ownLines.ReplaceAllString(o.Stdout, "")
			return o, err
		}
		return peer.Output{Cmd: "package pmapi", Stdout: target.anonymous(ownLines.ReplaceAllString(f(t, c), ""))}, nil
	}, cmp)
}

// goNames are the metrics that Go's client looks at: all of the agents for demonstration, and
// enough of the others. sample.bad.unknown has no
// descriptor, and the names of sample.secret.foo.bar.max.redirect and, in PCP 6.3.8,
// sample.secret.bin are not among those of their metrics.
// Those of sample.wrap, slow_wrap and scale_step change with the number of fetches, also in sign
// and length.
func goNames(t *testing.T, target clientTarget) (names []string) {
	t.Helper()
	c := goClient(t, target.host, target.options)
	for _, root := range strings.Fields("sample simple pmcd.version pmcd.pid pmcd.agent.type kernel.all.load hinv disk.all mem.util network.interface") {
		for name, err := range c.Traverse(t.Context(), root) {
			if errors.Is(err, pdu.ErrnoName) {
				break // a Machine has no agent simple
			}
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case name == "sample.bad.unknown", name == "sample.not_ready", name == "sample.secret.foo.bar.max.redirect", name == "sample.secret.bin",
				strings.HasPrefix(name, "sample.wrap."), strings.HasPrefix(name, "sample.slow_wrap."), strings.HasPrefix(name, "sample.scale_step."):
			default:
				names = append(names, name)
			}
		}
	}
	return names
}

// TestGoClient compares what package pmapi has with what PCP's clients print, against both
// daemons.
func TestGoClient(t *testing.T) { compareGoClient(t, pairTargets(t)) }

// TestGoClientTrixie is TestGoClient with PCP 6.3.8.
func TestGoClientTrixie(t *testing.T) { compareGoClient(t, machineTargets(t)) }

func compareGoClient(t *testing.T, targets []clientTarget) {
	for _, target := range targets {
		names := goNames(t, target)
		if len(names) < 200 {
			t.Errorf("%s has only %q", target.name, names)
		}
		with := func(line string) peer.Client {
			c := words(line)
			c.Args = append(c.Args, names...)
			return c
		}
		metrics := peer.Comparison{Split: peer.Metrics, Rules: moving, Status: peer.AnyStatus}
		for _, tt := range []struct {
			client peer.Client
			cmp    peer.Comparison
			f      func(*goPrinter)
		}{
			{words("pminfo -h {host}"), peer.Comparison{Split: peer.Lines}, (*goPrinter).all},
			{with("pminfo -h {host} -dmtT"), metrics, (*goPrinter).describe},
			{with("pminfo -h {host} -l"), metrics, (*goPrinter).labels},
			{with("pminfo -h {host} -f"), metrics, (*goPrinter).values},
			{words("pmprobe -h {host} -v sample.bin sample.long sample.string"), peer.Comparison{Split: peer.Lines, Rules: []peer.Rule{}}, (*goPrinter).probe},
		} {
			t.Run(strings.Join(tt.client.Args[:min(4, len(tt.client.Args))], " ")+"/"+target.name, func(t *testing.T) {
				sameAsPCP(t, target, tt.client, tt.cmp, func(t *testing.T, c *pmapi.Client) string {
					p := &goPrinter{t: t, c: c, names: names}
					tt.f(p)
					return p.b.String()
				})
			})
		}
	}
}

// A goPrinter prints what package pmapi has as PCP's clients do.
type goPrinter struct {
	t     *testing.T
	c     *pmapi.Client
	names []string
	b     strings.Builder
}

func (p *goPrinter) f(format string, args ...any) { fmt.Fprintf(&p.b, format, args...) }

func (p *goPrinter) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// errorTexts are what PCP's clients print of errors.
var errorTexts = map[pdu.Errno]string{
	pdu.ErrnoText:       "One-line or help text is not available",
	pdu.ErrnoAgain:      "Try again. Information not currently available",
	pdu.ErrnoInst:       "Unknown or illegal instance identifier",
	pdu.ErrnoProfile:    "Explicit instance identifier(s) required",
	pdu.ErrnoAppVersion: "Metric not supported by this version of monitored application",
}

func (p *goPrinter) text(err error) string {
	var code pdu.Errno
	if !errors.As(err, &code) || errorTexts[code] == "" {
		p.t.Errorf("no text for %v", err)
	}
	return errorTexts[code]
}

func (p *goPrinter) all() {
	for name, err := range p.c.Traverse(p.t.Context(), "") {
		p.check(err)
		p.f("%s\n", name)
	}
}

// lookup returns the descriptors of the metrics.
func (p *goPrinter) lookup() ([]pdu.PMID, []pdu.Desc) {
	ids, err := p.c.Lookup(p.t.Context(), p.names...)
	p.check(err)
	descs, err := p.c.Descs(p.t.Context(), ids...)
	p.check(err)
	return ids, descs
}

// metricTypes are the types of metrics as pminfo names them.
var metricTypes = map[pdu.MetricType]string{
	pdu.MetricNoSupport: "Not Supported", pdu.Metric32: "32-bit int", pdu.MetricU32: "32-bit unsigned int",
	pdu.Metric64: "64-bit int", pdu.MetricU64: "64-bit unsigned int", pdu.MetricFloat: "float", pdu.MetricDouble: "double",
	pdu.MetricString: "string", pdu.MetricAggregate: "aggregate", pdu.MetricEvent: "event record array",
	pdu.MetricHighResEvent: "highres event record array",
}

func (p *goPrinter) describe() {
	ids, descs := p.lookup()
	for i, d := range descs {
		names, err := p.c.Names(p.t.Context(), ids[i])
		p.check(err)
		if !slices.Contains(names, p.names[i]) {
			p.t.Errorf("%s is not one of the names %q of %v", p.names[i], names, ids[i])
		}
		p.f("%s PMID: %v", p.names[i], d.PMID)
		if text, err := p.c.Text(p.t.Context(), d.PMID, pmapi.TextOneLine); err != nil {
			p.f(" One-line Help: Error: %s\n", p.text(err))
		} else {
			p.f(" [%s]\n", text)
		}
		indom := d.InDom.String()
		if d.InDom == pdu.NoInDom {
			indom = "PM_INDOM_NULL"
		}
		sem := d.Sem.String()
		if d.Sem == 0 {
			sem = "??? (0)"
		}
		p.f("    Data Type: %s  InDom: %s 0x%x\n    Semantics: %s  Units: %v\n", metricTypes[d.ValueType], indom, uint32(d.InDom), sem, d.Units)
		if text, err := p.c.Text(p.t.Context(), d.PMID, pmapi.TextHelp); err != nil {
			p.f("Full Help: Error: %s\n", p.text(err))
		} else {
			p.f("Help:\n%s\n", text)
		}
	}
}

func (p *goPrinter) labels() {
	_, descs := p.lookup()
	for i, d := range descs {
		all, err := p.c.Labels(p.t.Context(), d.PMID)
		p.check(err)
		p.f("%s\n    labels %s\n", p.names[i], pmapi.LabelsJSON(all[0].Labels))
		if d.InDom == pdu.NoInDom {
			continue
		}
		insts, err := p.c.Instances(p.t.Context(), d.InDom)
		p.check(err)
		for _, inst := range insts {
			labels := all[0]
			if at := slices.IndexFunc(all, func(l pmapi.InstLabels) bool { return l.Inst == inst.ID }); at > 0 {
				labels = all[at]
			}
			p.f("    inst [%d or %q] labels %s\n", inst.ID, inst.Name, pmapi.LabelsJSON(labels.Labels))
		}
	}
}

func (p *goPrinter) values() {
	ids, descs := p.lookup()
	var r pmapi.Result
	p.check(p.c.Fetch(p.t.Context(), ids, &r))
	for i := range r.Sets {
		set, d := &r.Sets[i], descs[i]
		p.f("%s\n", p.names[i])
		switch {
		case set.Err < 0:
			p.f("Error: %s\n", p.text(set.Err))
		case len(set.Values) == 0:
			p.f("No value(s) available!\n")
		}
		for _, v := range set.Values {
			if v.Inst == pdu.NoInst {
				p.f("    ")
			} else if name, err := p.c.InstanceName(p.t.Context(), d.InDom, v.Inst); err == nil {
				p.f("    inst [%d or \"%s\"] ", v.Inst, name)
			} else {
				p.f("pmNameIndom: indom=%v inst=%d: %s\n    inst [%d] ", d.InDom, v.Inst, p.text(err), v.Inst)
			}
			value, err := pmapi.Decode(set, v, d.ValueType)
			p.check(err)
			p.f("value %v\n", value)
		}
	}
}

func (p *goPrinter) probe() {
	for _, root := range []string{"sample.bin", "sample.long", "sample.string"} {
		for name, err := range p.c.Traverse(p.t.Context(), root) {
			p.check(err)
			g := p.c.NewGroup()
			var values []pmapi.Instance[string]
			item := pmapi.BindAll(g, &values, name, pmapi.ItemOptions{})
			_, err := g.Fetch(p.t.Context())
			p.check(errors.Join(err, item.Err()))
			p.f("%s %d", name, len(values))
			for _, v := range values {
				p.check(v.Err)
				if strings.HasPrefix(name, "sample.string") {
					v.Value = `"` + v.Value + `"`
				}
				p.f(" %s", v.Value)
			}
			p.f("\n")
		}
	}
}

// Clients that traverse the name space at the same time, and so wait for their turns at the
// agents of dynamic names, get the same names.
func TestGoClientsTogether(t *testing.T) {
	p := servers(t)
	var wg sync.WaitGroup
	for i := range 4 {
		c := goClient(t, p.Ours.Host([]peer.Transport{peer.TCP4, peer.Unix}[i%2]), pmapi.Options{})
		wg.Go(func() {
			var first []string
			for range 50 {
				var names []string
				for name, err := range c.Traverse(t.Context(), "") {
					if err != nil {
						t.Error(err)
						return
					}
					names = append(names, name)
				}
				if first == nil {
					first = names
				}
				if len(names) < 1000 || !slices.Equal(names, first) {
					t.Errorf("%d names, and %d before", len(names), len(first))
					return
				}
			}
		})
	}
	wg.Wait()
}
