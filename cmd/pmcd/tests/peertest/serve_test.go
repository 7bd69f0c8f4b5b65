package peertest

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
)

// served is an agent written in Go that runs as a process.
var served = serve.Program{
	Name: servedName, Domain: 249, Log: "served.log",
	New: func(s serve.Start) (agents.Agent, error) { return floors{s.Domain}, nil },
}

const servedName = "pmdaserved"

// floors has a metric with instances.
type floors struct{ domain int }

func (a floors) level() pdu.PMID  { return pdu.NewPMID(a.domain, 0, 1) }
func (a floors) indom() pdu.InDom { return pdu.NewInDom(a.domain, 0) }

func (a floors) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != a.level() {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, ValueType: pdu.MetricDouble, InDom: a.indom(), Sem: pdu.SemInstant}, nil
}

func (a floors) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		if id != a.level() {
			w.Fail(id, pdu.ErrnoPMID)
			continue
		}
		w.Begin(id)
		for i := range int32(3) {
			if r.Profile.Includes(a.indom(), i) {
				w.Float64(i, float64(i)*2.5)
			}
		}
	}
	return nil
}

func (a floors) Instances(_ context.Context, _ agents.Origin, indom pdu.InDom) ([]pdu.Inst, error) {
	if indom != a.indom() {
		return nil, pdu.ErrnoInDom
	}
	return []pdu.Inst{{ID: 0, Name: "ground floor"}, {ID: 1, Name: "first floor"}, {ID: 2, Name: "roof"}}, nil
}

func (a floors) Text(context.Context, agents.Origin, pdu.PMID, bool) (string, error) {
	return "height of a floor", nil
}
func (a floors) InDomText(context.Context, agents.Origin, pdu.InDom, bool) (string, error) {
	return "", pdu.ErrnoText
}

func (a floors) Labels(_ context.Context, _ agents.Origin, kind pdu.LabelKind, _ uint32) ([]pdu.LabelSet, error) {
	if kind != pdu.LabelInDom {
		return nil, nil
	}
	set, err := pdu.NewLabelSet(pdu.NoInst, kind, pdu.NamedLabel{Name: "unit", Value: `"m"`})
	return []pdu.LabelSet{set}, err
}

// TestServedAgent has an agent of package serve under both daemons.
func TestServedAgent(t *testing.T) {
	peer.Require(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pmda := filepath.Join(t.TempDir(), servedName)
	if err := os.Symlink(self, pmda); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"pipe", "inet", "ipv6", "unix"} {
		t.Run(kind, func(t *testing.T) {
			if kind == "ipv6" {
				usable(t, peer.TCP6)
				// Whatever peers are required: it is the machine's /etc/hosts.
				if a, err := net.LookupHost("localhost"); err != nil || !slices.Contains(a, "::1") {
					t.Skipf("C pmcd connects to localhost, which is %v", a)
				}
			}
			p := otherPair(t, func() peer.Config {
				line := "served 249 pipe binary " + pmda
				if kind != "pipe" {
					addr := "{dir}/served.socket"
					if kind != "unix" {
						n, err := peer.FreePort()
						if err != nil {
							t.Fatal(err)
						}
						addr = strconv.Itoa(n)
					}
					option := map[string]string{"inet": "-i", "ipv6": "-6", "unix": "-u"}[kind]
					line = fmt.Sprintf("served 249 socket %s %s %s %s %s", kind, addr, pmda, option, addr)
				}
				return peer.Config{
					Agents: []string{"pmcd 2 dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so", line + " -d 249 -l {dir}/log/served.log"},
					PMNS:   "root {\n\tserved\n}\nserved {\n\tlevel 249:0:1\n\tnone 249:0:2\n}\n",
				}
			})
			for _, line := range []string{
				"pminfo -h {host} -dmtTl served",
				"pminfo -h {host} -f served",
				"pminfo -h {host} -I 249.0",
				"pmval -h {host} -s 1 -i ground,roof served.level",
			} {
				t.Run(line, func(t *testing.T) { p.Compare(t, peer.TCP4, words(line), pminfo()) })
			}
			// That they are alike does not mean that there was anything.
			o, err := p.C.Run(t.Context(), peer.TCP4, words("pminfo -h {host} -f served.level"))
			if want := `    inst [0 or "ground floor"] value 0
    inst [1 or "first floor"] value 2.5
    inst [2 or "roof"] value 5
`; err != nil || !strings.Contains(o.Stdout, want) {
				t.Errorf("%v, %v; want %s", err, o, want)
			}
		})
	}
}
