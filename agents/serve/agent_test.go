package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// If the name of the test binary is that of a PMDA, it runs the agent colours.
func TestMain(m *testing.M) {
	if os.Args[0] == "child: colours" {
		RunChild(os.Args[0], func() (agents.Agent, error) {
			fmt.Println("this must not get into the protocol")
			slog.Info("by slog")
			return newColours(Start{Domain: 120, Log: slog.Default()})
		})
	}
	if os.Args[0] == "stand-in: colours" {
		p := program()
		p.Domain = 120
		p.New = func(s Start) (agents.Agent, error) {
			slog.Info("by slog")
			return newColours(s)
		}
		in, err := NewStandIn(p, os.Args[1:])
		if err != nil {
			log.Fatal(err)
		}
		in.RunChild(os.Args[0])
	}
	if filepath.Base(os.Args[0]) == "pmdacolours" {
		p := program()
		p.New = func(s Start) (agents.Agent, error) {
			fmt.Println("this must not get into the protocol")
			fmt.Fprintln(os.Stderr, "this must not get into pmcd's log")
			slog.Info("by slog")
			log.Print("by log")
			a, err := newColours(s)
			slog.Info("user", "id", os.Getuid(), "group", os.Getgid(), "dir", os.Getenv("PCP_LOG_DIR"))
			return a, err
		}
		Main(p)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of child processes
	os.Exit(m.Run())
}

// program returns a program whose agent implements all optional interfaces. Its
// arguments name the failures that the agent simulates.
func program() Program {
	return Program{
		Name:      "pmdacolours",
		Domain:    253,
		Log:       "colours.log",
		Help:      "colours.help",
		CheckArgs: checkFailures,
		New:       newColours,
	}
}

func checkFailures(args []string) error {
	for _, a := range args {
		if !strings.Contains("fail panic panicfetch hang hangclose", a) {
			return fmt.Errorf("unknown failure: %s", a)
		}
	}
	return nil
}

func newColours(s Start) (agents.Agent, error) {
	switch {
	case slices.Contains(s.Args, "fail"):
		return nil, errors.New("no colours today")
	case slices.Contains(s.Args, "panic"):
		panic("ouch")
	case slices.Contains(s.Args, "hang"):
		select {}
	}
	s.Log.Info("agent made", "domain", s.Domain, "help", s.Help)
	return &colours{Start: s, values: []uint32{0, 100, 200}}, nil
}

// colours is an agent with an instance domain, a singular metric and a dynamic
// subtree.
type colours struct {
	Start
	values []uint32
}

var names = []string{"red", "green", "deep blue"}

func (a *colours) colour() pdu.PMID  { return pdu.NewPMID(a.Domain, 0, 1) }
func (a *colours) fetches() pdu.PMID { return pdu.NewPMID(a.Domain, 0, 0) }
func (a *colours) indom() pdu.InDom  { return pdu.NewInDom(a.Domain, 0) }

func (a *colours) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	d := pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}
	switch id {
	case a.fetches():
	case a.colour():
		d.InDom = a.indom()
	default:
		return d, pdu.ErrnoPMID
	}
	return d, nil
}

func (a *colours) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	if slices.Contains(a.Args, "panicfetch") {
		panic("ouch")
	}
	for _, id := range r.PMIDs {
		switch id {
		case a.fetches():
			w.Begin(id)
			w.Word(pdu.NoInst, 42)
		case a.colour():
			w.Begin(id)
			for i, v := range a.values {
				if r.Profile.Includes(a.indom(), int32(i)) {
					w.Word(int32(i), v)
				}
			}
		default:
			w.Fail(id, pdu.ErrnoPMID)
		}
	}
	return nil
}

func (a *colours) Instances(_ context.Context, _ agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	if indom != a.indom() {
		return nil, pdu.ErrnoInDom
	}
	var list []pdu.Inst
	for i, n := range names {
		list = append(list, pdu.Inst{ID: int32(i), Name: n})
	}
	return list, nil
}

func (a *colours) Text(_ context.Context, _ agents.Origin, id pdu.PMID, oneline bool) (string, error) {
	if id != a.colour() {
		return "", pdu.ErrnoText
	}
	if oneline {
		return "a colour", nil
	}
	return "A colour.\nIts hue in degrees.", nil
}

func (a *colours) InDomText(_ context.Context, _ agents.Origin, indom pdu.InDom, _ bool) (string, error) {
	if indom != a.indom() {
		return "", pdu.ErrnoText
	}
	return "all colours", nil
}

func (a *colours) Store(_ context.Context, _ agents.Origin, r *pdu.Result) error {
	for _, vs := range r.Sets {
		if vs.PMID != a.colour() {
			return pdu.ErrnoPermission
		}
		for _, v := range vs.Values {
			if v.Inst < 0 || int(v.Inst) >= len(a.values) {
				return pdu.ErrnoInst
			}
			a.values[v.Inst] = v.Word
		}
	}
	return nil
}

func (a *colours) Labels(_ context.Context, _ agents.Origin, kind pdu.LabelKind, _ uint32) ([]pdu.LabelSet, error) {
	if kind != pdu.LabelDomain {
		return nil, nil
	}
	set, err := pdu.NewLabelSet(pdu.NoInst, kind, pdu.NamedLabel{Name: "role", Value: `"testing"`})
	return []pdu.LabelSet{set}, err
}

// dynamicNames are names of the metric colour that are not in pmcd's PMNS.
var dynamicNames = []string{"colours.dynamic.hue", "colours.dynamic.more.hue"}

func (a *colours) PMID(_ context.Context, _ agents.Origin, name string) (pdu.PMID, error) {
	if !slices.Contains(dynamicNames, name) {
		return 0, pdu.ErrnoName
	}
	return a.colour(), nil
}

func (a *colours) Names(_ context.Context, _ agents.Origin, id pdu.PMID) ([]string, error) {
	if id != a.colour() {
		return nil, pdu.ErrnoPMID
	}
	return dynamicNames, nil
}

func (a *colours) Children(_ context.Context, _ agents.Origin, name string) ([]pdu.Child, error) {
	switch name {
	case "colours.dynamic":
		return []pdu.Child{{Name: "hue", Leaf: true}, {Name: "more"}}, nil
	case "colours.dynamic.more":
		return []pdu.Child{{Name: "hue", Leaf: true}}, nil
	}
	return nil, pdu.ErrnoName
}

func (a *colours) Traverse(_ context.Context, _ agents.Origin, name string) ([]string, error) {
	var list []string
	for _, n := range dynamicNames {
		if n == name || strings.HasPrefix(n, name+".") {
			list = append(list, n)
		}
	}
	if list == nil {
		return nil, pdu.ErrnoName
	}
	return list, nil
}

func (a *colours) SetAttr(client int32, attr pdu.Attr) {
	a.Log.Info("attribute", "client", client, "key", attr.Code, "value", attr.Value)
}

func (a *colours) EndContext(client int32) { a.Log.Info("client closed", "client", client) }

func (a *colours) Close() error {
	if slices.Contains(a.Args, "hangclose") {
		select {}
	}
	a.Log.Info("agent closed", "first", cmp.Or(a.values...))
	return nil
}
