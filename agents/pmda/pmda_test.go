package pmda_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

const domain = 400

func id(cluster, item int) pdu.PMID { return pdu.NewPMID(domain, cluster, item) }

// row returns a metric with one value.
func row(item int, fetch pmda.FetchFunc) pmda.Metric {
	return pmda.Metric{Item: item, Sem: pdu.SemInstant, Type: pdu.MetricU32, Fetch: fetch}
}

// sets returns a function that sets the value n.
func sets(n uint64) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error { v.SetUint(n); return nil }
}

// start returns a transport to a new agent, and its log.
func start(t *testing.T, c pmda.Config) (transport.Transport, *bytes.Buffer) {
	t.Helper()
	var out bytes.Buffer
	c.Domain = domain
	c.Log = slog.New(serve.NewHandler(&out, "pmda", slog.LevelInfo))
	a, err := pmda.New(c)
	if err != nil {
		t.Fatal(err)
	}
	tr := transport.Inline(a)
	t.Cleanup(func() { tr.Close() })
	return tr, &out
}

// fetch fetches metrics as client 1.
func fetch(t *testing.T, tr transport.Transport, ids ...pdu.PMID) *pdu.Result {
	t.Helper()
	r := new(pdu.Result)
	if err := transporttest.Do(tr, agents.Origin{Client: 1}, &pdu.Fetch{PMIDs: ids}, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// show returns a value set as "inst=value ...", or its error.
func show(s pdu.ValueSet) string {
	if s.Err != 0 {
		return s.Err.Name()
	}
	var list []string
	for _, v := range s.Values {
		text := fmt.Sprint(v.Word)
		if s.Format != pdu.FormatInsitu {
			text = fmt.Sprintf("%v:%x", v.Type, v.Block)
		}
		list = append(list, fmt.Sprintf("%d=%s", v.Inst, text))
	}
	return strings.Join(list, " ")
}

// The replies of an agent with a minimal Config are those of libpcp_pmda.
func TestDefaults(t *testing.T) {
	tr, _ := start(t, pmda.Config{Name: "bare", Metrics: []pmda.Metric{row(0, nil)}})
	transporttest.Test(t, tr, id(0, 0))
	r := fetch(t, tr, id(0, 0), id(0, 1))
	if got := show(r.Sets[0]) + "," + show(r.Sets[1]); got != ",PM_ERR_PMID" {
		t.Errorf("fetch: %q", got)
	}
	store := &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(0, 0), Values: []pdu.Value{{Inst: -1}}}}}
	unknown := &pdu.Result{Sets: []pdu.ValueSet{{PMID: id(0, 1), Values: []pdu.Value{{Inst: -1}}}}}
	for _, tt := range []struct {
		req  pdu.Message
		want pdu.Errno
	}{
		{&pdu.DescReq{PMID: id(1, 0)}, pdu.ErrnoPMID},
		{&pdu.InstanceReq{InDom: pdu.NewInDom(domain, 0), Inst: pdu.NoInst}, pdu.ErrnoInDom},
		{&pdu.TextReq{Ident: uint32(id(0, 0)), Kind: pdu.TextPMID | pdu.TextOneLine}, pdu.ErrnoText},
		{&pdu.TextReq{Ident: uint32(pdu.NewInDom(domain, 0)), Kind: pdu.TextInDom | pdu.TextHelp}, pdu.ErrnoText},
		{store, pdu.ErrnoPermission},
		{unknown, pdu.ErrnoPMID},
		{&pdu.PMNSNames{Names: []string{"a"}}, pdu.ErrnoName},
		{&pdu.PMNSIDs{PMIDs: []pdu.PMID{id(0, 0)}}, pdu.ErrnoPMID},
		{&pdu.PMNSChild{Name: "a"}, pdu.ErrnoName},
		{&pdu.PMNSTraverse{Name: "a"}, pdu.ErrnoName},
	} {
		if err := transporttest.Do(tr, agents.Origin{}, tt.req, new(pdu.Error)); err != error(tt.want) {
			t.Errorf("%T: %v, want %v", tt.req, err, tt.want)
		}
	}
	if tr.WantsAttrs() {
		t.Error("the agent wants attributes")
	}
}
