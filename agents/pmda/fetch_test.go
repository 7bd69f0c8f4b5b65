package pmda_test

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// All conversions from the type that is set to the type of the metric.
func TestValues(t *testing.T) {
	rec := []pdu.EventRecord{{Sec: 1, Nsec: 2000, Flags: pdu.EventPoint}}
	set := func(f func(v *pmda.Value)) pmda.FetchFunc {
		return func(_ context.Context, v *pmda.Value) error { f(v); return nil }
	}
	minus := set(func(v *pmda.Value) { v.SetInt(-2) })
	big := set(func(v *pmda.Value) { v.SetUint(1<<63 + 1<<32 + 5) })
	half := set(func(v *pmda.Value) { v.SetFloat(2.5) })
	text := set(func(v *pmda.Value) { v.SetString("hi") })
	blob := set(func(v *pmda.Value) { v.SetBytes([]byte("ab\x03")) })
	events := set(func(v *pmda.Value) { v.SetEvents(rec) })
	const bad = "PM_ERR_TYPE"
	tests := []struct {
		typ   pdu.MetricType
		fetch pmda.FetchFunc
		want  string
	}{
		{pdu.Metric32, minus, "-1=4294967294"},
		{pdu.MetricU32, big, "-1=4294967295"},
		{pdu.MetricU32, minus, ""},
		{pdu.MetricU32, set(func(v *pmda.Value) { v.SetFloat(5e9) }), "-1=4294967295"},
		{pdu.Metric32, big, "-1=2147483647"},
		{pdu.Metric32, set(func(v *pmda.Value) { v.SetUint(math.MaxInt64) }), "-1=2147483647"},
		{pdu.Metric32, set(func(v *pmda.Value) { v.SetInt(-1 << 40) }), "-1=2147483648"},
		{pdu.Metric32, set(func(v *pmda.Value) { v.SetFloat(-1e99) }), "-1=2147483648"},
		{pdu.Metric32, set(func(v *pmda.Value) { v.SetFloat(math.Inf(1)) }), "-1=2147483647"},
		{pdu.Metric32, set(func(v *pmda.Value) { v.SetFloat(math.NaN()) }), ""},
		{pdu.Metric64, big, "-1=64:7fffffffffffffff"},
		{pdu.MetricU64, minus, ""},
		{pdu.MetricU64, set(func(v *pmda.Value) { v.SetFloat(-0.5) }), "-1=U64:0000000000000000"},
		{pdu.MetricFloat, set(func(v *pmda.Value) { v.SetFloat(-1e99) }), "-1=FLOAT:ff7fffff"},
		{pdu.MetricFloat, set(func(v *pmda.Value) { v.SetFloat(math.Inf(1)) }), "-1=FLOAT:7f800000"},
		{pdu.MetricU32, half, "-1=2"},
		{pdu.Metric32, text, bad},
		{pdu.Metric64, minus, "-1=64:fffffffffffffffe"},
		{pdu.MetricU64, big, "-1=U64:8000000100000005"},
		{pdu.MetricU64, set(func(v *pmda.Value) { v.SetFloat(1 << 63) }), "-1=U64:8000000000000000"},
		{pdu.MetricU64, set(func(v *pmda.Value) { v.SetFloat(-1) }), ""},
		{pdu.MetricFloat, half, "-1=FLOAT:40200000"},
		{pdu.MetricFloat, minus, "-1=FLOAT:c0000000"},
		{pdu.MetricDouble, half, "-1=DOUBLE:4004000000000000"},
		{pdu.MetricDouble, big, "-1=DOUBLE:43e0000000200000"},
		{pdu.MetricDouble, text, bad},
		{pdu.MetricString, text, "-1=STRING:686900"},
		{pdu.MetricString, blob, "-1=STRING:61625c78303300"}, // control characters are escaped,
		{pdu.MetricString, half, bad},
		{pdu.MetricAggregate, blob, "-1=AGGREGATE:616203"},
		{pdu.MetricAggregate, text, bad},
		{pdu.MetricEvent, events, "-1=EVENT:000000010000000100000002000000010000000" + "0"},
		{pdu.MetricHighResEvent, events, "-1=HIGHRES_EVENT:00000001000000000000000100000000000007d00000000100000000"},
		{pdu.MetricEvent, blob, bad},
		{pdu.MetricU32, set(func(v *pmda.Value) { v.SetString("x"); v.SetUint(3) }), "-1=3"},
		{pdu.MetricU32, set(func(*pmda.Value) {}), ""},
	}
	var metrics []pmda.Metric
	var ids []pdu.PMID
	for i, tt := range tests {
		m := row(i, tt.fetch)
		m.Type = tt.typ
		metrics = append(metrics, m)
		ids = append(ids, id(0, i))
	}
	tr, _ := start(t, pmda.Config{Metrics: metrics})
	for range 2 { // the second fetch reuses memory
		for i, s := range fetch(t, tr, ids...).Sets {
			t.Run(fmt.Sprintf("%d %v", i, tests[i].typ), func(t *testing.T) {
				if got := show(s); got != tests[i].want {
					t.Errorf("got %q, want %q", got, tests[i].want)
				}
			})
		}
	}
	transporttest.Test(t, tr, ids...)
}

// A counter wraps, so that clients can compute its rate.
func TestCounterWraps(t *testing.T) {
	for _, tt := range []struct {
		typ  pdu.MetricType
		set  func(v *pmda.Value)
		want string
	}{
		{pdu.MetricU32, func(v *pmda.Value) { v.SetUint(1<<32 + 5) }, "-1=5"},
		{pdu.MetricU32, func(v *pmda.Value) { v.SetInt(-2) }, "-1=4294967294"}, // an unsigned counter that is printed as signed
		{pdu.MetricU32, func(v *pmda.Value) { v.SetFloat(1<<32 + 5) }, "-1=5"},
		{pdu.MetricU64, func(v *pmda.Value) { v.SetInt(-2) }, "-1=U64:fffffffffffffffe"},
	} {
		m := row(0, func(_ context.Context, v *pmda.Value) error { tt.set(v); return nil })
		m.Type, m.Sem = tt.typ, pdu.SemCounter
		tr, _ := start(t, pmda.Config{Metrics: []pmda.Metric{m}})
		if got := show(fetch(t, tr, id(0, 0)).Sets[0]); got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.typ, got, tt.want)
		}
	}
}

// A fetch returns the instances in the profile. If all of them fail, it returns the
// last error. Instance requests find instances by number and by name.
func TestInstances(t *testing.T) {
	list := pmda.List{{ID: 3, Name: "c"}, {ID: 1, Name: "a b"}, {ID: 2, Name: "b"}}
	dom := &pmda.InDom{Serial: 5, Insts: &list}
	m := row(0, func(_ context.Context, v *pmda.Value) error {
		switch {
		case v.InstName() == "b":
			return syscall.ENOENT
		case v.Inst() == 1:
			v.SetUint(99)
			return pdu.ErrnoAgain
		}
		v.SetUint(uint64(10*v.Inst()) + uint64(v.Index()))
		return nil
	})
	m.InDom = dom
	reads := 0
	m.Source = &pmda.Source{Read: func(context.Context, *pmda.Request) error { reads++; return nil }}
	tr, log := start(t, pmda.Config{Metrics: []pmda.Metric{m}})
	tests := []struct {
		name    string
		profile pdu.Profile
		want    string
	}{
		{"all", pdu.Profile{}, "3=30"},
		{"none", pdu.Profile{Exclude: true}, ""},
		{"one", pdu.Profile{Exclude: true, InDoms: []pdu.InDomProfile{{InDom: pdu.NewInDom(domain, 5), Exclude: true, Insts: []int32{3}}}}, "3=30"},
		{"the last error", pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: pdu.NewInDom(domain, 5), Insts: []int32{3}}}}, "-2"},
		{"the only error", pdu.Profile{InDoms: []pdu.InDomProfile{{InDom: pdu.NewInDom(domain, 5), Exclude: true, Insts: []int32{1, 99}}}}, "PM_ERR_AGAIN"},
	}
	for _, tt := range tests {
		reads = 0
		req, _ := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{id(0, 0)}})
		c := transport.Call{Req: req, Profile: transport.NewProfile(&tt.profile)}
		b, err := transport.Do(tr, &c, nil)
		if err != nil {
			t.Fatal(err)
		}
		var r pdu.Result
		if _, err := pdu.ParseInto(b, &r); err != nil {
			t.Fatal(err)
		}
		if got := show(r.Sets[0]); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		if needed := tt.name != "none"; needed != (reads == 1) {
			t.Errorf("%s: the Source was read %d times", tt.name, reads)
		}
	}
	if log.Len() > 0 {
		t.Errorf("an error with a code is logged: %s", log)
	}

	for _, tt := range []struct {
		inst int32
		name string
		want any
	}{
		{pdu.NoInst, "", []pdu.Inst(list)},
		{2, "", []pdu.Inst{{ID: pdu.NoInst, Name: "b"}}},
		{pdu.NoInst, "c", []pdu.Inst{{ID: 3}}},
		{pdu.NoInst, "a", []pdu.Inst{{ID: 1}}}, // the part before the first blank
		{pdu.NoInst, "a b", []pdu.Inst{{ID: 1}}},
		{pdu.NoInst, "a c", pdu.ErrnoInst},
		{9, "", pdu.ErrnoInst},
		{3, "c", pdu.ErrnoInst},
	} {
		var reply pdu.Instance
		err := transporttest.Do(tr, agents.Origin{}, &pdu.InstanceReq{InDom: pdu.NewInDom(domain, 5), Inst: tt.inst, Name: tt.name}, &reply)
		var got any = reply.Insts
		if err != nil {
			got = err
		}
		if !reflect.DeepEqual(got, tt.want) {
			t.Errorf("instance %d, %q: %v, want %v", tt.inst, tt.name, got, tt.want)
		}
	}
}

// A Source is read once in a request, and only if the request needs it. Its error
// concerns only its own metrics.
func TestSources(t *testing.T) {
	reads := make(map[string]int)
	source := func(name string, err error) *pmda.Source {
		return &pmda.Source{Read: func(context.Context, *pmda.Request) error { reads[name]++; return err }}
	}
	own, cluster, insts, bad := source("own", nil), source("cluster", nil), source("insts", nil), source("bad", pdu.ErrnoAgain)
	dom := &pmda.InDom{Insts: pmda.List{{ID: 0, Name: "x"}, {ID: 1, Name: "y"}}, Source: insts}
	m0, m1, m2, m3, m4 := row(0, sets(1)), row(1, sets(2)), row(2, nil), row(3, sets(4)), row(4, sets(5))
	m1.Source, m1.InDom = own, dom
	m2.Cluster, m3.Source = 1, bad
	m4.Source, m4.Cluster = own, 1
	tr, _ := start(t, pmda.Config{
		Metrics:  []pmda.Metric{m0, m1, m2, m3, m4},
		Clusters: []pmda.Cluster{{Cluster: 1, Source: cluster, Fetch: sets(3)}},
	})
	tests := []struct {
		ids   []pdu.PMID
		want  string
		reads string
	}{
		{[]pdu.PMID{id(0, 0)}, "-1=1", "map[]"},
		{[]pdu.PMID{id(0, 1), id(0, 1), id(1, 4)}, "0=2 1=2,0=2 1=2,-1=5", "map[insts:1 own:1]"},
		{[]pdu.PMID{id(1, 2)}, "-1=3", "map[cluster:1]"},
		{[]pdu.PMID{id(0, 3), id(0, 0), id(0, 3)}, "PM_ERR_AGAIN,-1=1,PM_ERR_AGAIN", "map[bad:1]"},
	}
	for _, tt := range tests {
		clear(reads)
		var got []string
		for _, s := range fetch(t, tr, tt.ids...).Sets {
			got = append(got, show(s))
		}
		if strings.Join(got, ",") != tt.want || fmt.Sprint(reads) != tt.reads {
			t.Errorf("%v: %q with %v read, want %q with %v", tt.ids, got, reads, tt.want, tt.reads)
		}
	}
	clear(reads)
	if err := transporttest.Do(tr, agents.Origin{}, &pdu.InstanceReq{InDom: pdu.NewInDom(domain, 0), Inst: pdu.NoInst}, new(pdu.Instance)); err != nil || reads["insts"] != 1 {
		t.Errorf("instances: %v, %v read", err, reads)
	}
}
