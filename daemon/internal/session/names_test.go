package session

import (
	"context"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/logtest"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// What clients rely on in the answers of agents about names is looked at, and the agent stays.
func TestOddAnswersAboutNames(t *testing.T) {
	child := []byte("\x00\x00\x00\x20\x00\x00\x70\x0e\x00\x00\x00\x00" + // PMNS_NAMES
		"\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01" + "\x00\x00\x00\x01x~~~")
	none, _ := pdu.Append(nil, 0, new(pdu.PMNSNames))
	null, _ := pdu.Append(nil, 0, &pdu.PMNSIDs{PMIDs: []pdu.PMID{pdu.NoPMID}})
	for _, tt := range []struct {
		name   string
		req    pdu.Message
		answer []byte
		want   string
	}{
		{"a child without status", &pdu.PMNSChild{Subtype: 1, Name: "d"}, child, "-12366 [] []"},
		{"a child that needs none", &pdu.PMNSChild{Name: "d"}, child, "0 [x] []"},
		{"no names of a metric", &pdu.PMNSIDs{PMIDs: []pdu.PMID{id(240, 77)}}, none, "PM_ERR_PMID"},
		{"a null PMID", &pdu.PMNSNames{Names: []string{"d.x"}}, null, "PM_ERR_NAME"},
		{"a null PMID among others", &pdu.PMNSNames{Names: []string{"static", "d.x"}}, null, "1 [240.1.1 PM_ID_NULL]"},
		{"no names below a root", &pdu.PMNSTraverse{Name: "d"}, none, "PM_ERR_NAME"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			agent := answers{transport.Local(new(agentsettest.Namer)), tt.answer}
			table := agentsettest.StartTransport(t, 240, func() transport.Transport { return agent }, dynamicTree(t))
			<-table.Agent(240).Started()
			if got := dial(t, newServer(t, table, nil)).do(tt.req); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			if table.Agent(240).Conn() == nil {
				t.Error("the agent was dropped")
			}
		})
	}
}

// An answers is a Transport to an agent that has one reply to all requests.
type answers struct {
	*transport.Worker
	reply []byte
}

func (a answers) Send(*transport.Call) (transport.Reply, error) { return a, nil }
func (a answers) Recv(dst []byte) ([]byte, error)               { return append(dst, a.reply...), nil }

// What agents answer to a traverse of their parts of the name space d and e. PM_ERR_NAME says
// that there is nothing below a root. What is beyond a root is left out. A root that fails
// stays in the reply, and does not make another one of the same agent come back again and
// again.
func TestTraverse(t *testing.T) {
	stray := []string{"d.x", "t.one", "dd.x", "d", "d.", "d..x", "d.a.", ".d.x", "d.a.b", "u", "d.x"}
	for _, tt := range []struct {
		name     string
		d, e     func() ([]string, error)
		all, ofD string
		log      string // in the only line; "": there is none
	}{
		{"nothing", noName, noName, "static", "PM_ERR_NAME", ""},
		{"names beyond the root", func() ([]string, error) { return stray, nil }, noName, "d.x d d.a.b d.x static", "d.x d d.a.b d.x",
			`agent "t" (dom 240) gave 7 names that are not below "d"`},
		{"one root of two fails", func() ([]string, error) { return []string{"d.x"}, nil }, func() ([]string, error) { return nil, pdu.ErrnoPermission },
			"d.x e static", "d.x", `"e"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log, logs := logtest.NewLog()
			table := agentsettest.Start(t, 240, &twoRoots{d: tt.d, e: tt.e}, parseNames(t, "root { d 240:*:* e 240:*:*\n static 240:1:1 }\n"))
			c := dial(t, newServer(t, table, func(c *Config) { c.Log = log }))
			c.send(&pdu.Profile{})
			for range 3 {
				for name, want := range map[string]string{"": tt.all, "d": tt.ofD} {
					if got := c.do(&pdu.PMNSTraverse{Name: name}); got != want && got != "0 ["+want+"] []" {
						t.Errorf("traverse of %q: got %s, want %s", name, got, want)
					}
				}
				if n := c.s.client.Notices.Load(); n&uint32(pdu.StateNamesChange) != 0 {
					t.Error("told of new names")
				}
			}
			lines := logs.All()
			if len(lines) > 1 || (len(lines) == 0) != (tt.log == "") || len(lines) == 1 && !strings.Contains(lines[0].Message, tt.log) {
				t.Errorf("the log has %+v, want %q", lines, tt.log)
			}
		})
	}
}

func noName() ([]string, error) { return nil, pdu.ErrnoName }

// A twoRoots is an agent with the dynamic roots d and e.
type twoRoots struct {
	agentsettest.Namer
	d, e func() ([]string, error)
}

func (a *twoRoots) Traverse(_ context.Context, _ agents.Origin, name string) ([]string, error) {
	if name == "e" {
		return a.e()
	}
	return a.d()
}
