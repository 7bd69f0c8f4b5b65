package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/daemon/internal/calls"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// A seriesTransport is a Transport to an agent that replies to several requests in a Call.
// The agent takes the same time for each.
type seriesTransport struct {
	*transport.Worker
	answer func(req []byte) pdu.Message
	each   time.Duration
	fails  int   // the number of the call that fails; 0 is none
	calls  []int // how many requests they had
}

func (s *seriesTransport) Send(c *transport.Call) (transport.Reply, error) {
	r := &seriesReply{s, c, nil, 0}
	for rest := c.Req; len(rest) > 0; r.n++ {
		n, _, _ := pdu.Header(rest)
		r.reply, _ = pdu.Append(r.reply, 0, s.answer(rest[:n]))
		rest = rest[n:]
	}
	s.calls = append(s.calls, r.n)
	if len(s.calls) == s.fails {
		return nil, transport.ErrLate
	}
	return r, nil
}

type seriesReply struct {
	*seriesTransport
	call  *transport.Call
	reply []byte
	n     int
}

func (r *seriesReply) Recv(dst []byte) ([]byte, error) {
	r.call.Began = time.Now()
	r.call.Done = r.call.Began.Add(time.Duration(r.n) * r.each)
	return append(dst, r.reply...), nil
}

// answerName replies with the number in d.NUMBER as the item, except for 0.
func answerName(req []byte) pdu.Message {
	var m pdu.PMNSNames
	var item int
	if _, err := pdu.ParseInto(req, &m); err != nil || len(m.Names) != 1 {
		return &pdu.Error{Code: pdu.ErrnoIPC}
	}
	if _, err := fmt.Sscanf(m.Names[0], "d.%d", &item); err != nil || item == 0 {
		return &pdu.Error{Code: pdu.ErrnoName}
	}
	return &pdu.PMNSIDs{PMIDs: []pdu.PMID{pdu.NewPMID(240, 0, item)}}
}

// dynamicTree has a dynamic root d, of the agent of domain 240.
func dynamicTree(t *testing.T) *pmnsload.Tree {
	t.Helper()
	tree, err := pmnsload.Parse("pmns", strings.NewReader("root { d 240:*:*\n static 240:1:1 }\n"), pmnsload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Dynamic names of one request are asked for in few turns, each of which is short and has
// few bytes. A name that is repeated is asked for once.
func TestTurnsOfNames(t *testing.T) {
	var names []string
	for item := range 100 {
		names = append(names, fmt.Sprintf("d.%d", item))
	}
	long := make([]string, 10)
	for i := range long {
		long[i] = fmt.Sprintf("d.%d.", i+1) + strings.Repeat("x", 1500)
	}
	for _, tt := range []struct {
		name  string
		names []string
		each  time.Duration
		fails int
		calls []int
		known int // names in the reply with a PMID
	}{
		{"a quick agent", names, 0, 0, []int{1, 99}, 99},
		{"an agent that takes 0.1 ms", names, calls.MaxBatchTime / 40, 0, []int{1, 40, 40, 19}, 99},
		{"a slow agent", names[:5], 2 * calls.MaxBatchTime, 0, []int{1, 1, 1, 1, 1}, 4},
		{"the same names many times", slices.Repeat(names[:3], 100), 0, 0, []int{1, 2}, 200},
		{"long names", long, 0, 0, []int{1, 2, 2, 2, 2, 1}, 10},
		{"static names in between", []string{"static", "d.1", "static", "d.2"}, 0, 0, []int{1, 1}, 4},
		{"an agent that is late", names, calls.MaxBatchTime / 40, 3, []int{1, 40, 40}, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			agent := &seriesTransport{Worker: transport.Local(new(agentsettest.Namer)), answer: answerName, each: tt.each, fails: tt.fails}
			table := agentsettest.StartTransport(t, 240, func() transport.Transport { return agent }, dynamicTree(t))
			<-table.Agent(240).Started()
			s, c := withInput(t, table, &pdu.PMNSNames{Names: tt.names})
			s.srv.coroutines.Serve(s)
			var m pdu.PMNSIDs
			if _, err := pdu.ParseInto(<-c.replies, &m); err != nil {
				t.Fatal(err)
			}
			known := 0
			for i, id := range m.PMIDs {
				var item int
				fmt.Sscanf(tt.names[i], "d.%d", &item)
				switch {
				case id == pdu.NoPMID:
				case tt.names[i] == "static" && id == pdu.NewPMID(240, 1, 1), id == pdu.NewPMID(240, 0, item):
					known++
				default:
					t.Errorf("%s is %v", tt.names[i], id)
				}
			}
			if len(m.PMIDs) != len(tt.names) || known != tt.known || int(m.Status) != tt.known {
				t.Errorf("%d PMIDs, of which %d are known, and status %d; want %d and %d", len(m.PMIDs), known, m.Status, len(tt.names), tt.known)
			}
			if !slices.Equal(agent.calls, tt.calls) {
				t.Errorf("the agent was asked for %d names, want %d", agent.calls, tt.calls)
			}
		})
	}
}
