package responder

import (
	"context"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A sized Agent has one text of so many bytes.
type sized int

func (sized) Desc(context.Context, agents.Origin, pdu.PMID) (d pdu.Desc, err error) { return d, nil }

func (s sized) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	w.Begin(r.PMIDs[0])
	w.String(pdu.NoInst, strings.Repeat("x", int(s)))
	return nil
}

// Memory goes back to the system after a large reply only.
func TestReleaseAfterLargeReplies(t *testing.T) {
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		size  sized
		armed bool
	}{{100, false}, {1 << 20, true}} {
		r := Responder{Agent: tt.size}
		if _, err := r.Reply(t.Context(), Request{PDU: req}, nil); err != nil {
			t.Fatal(err)
		}
		release.Lock()
		armed := release.timer != nil && release.timer.Stop()
		release.Unlock()
		if armed != tt.armed {
			t.Errorf("after %d bytes the timer runs: %v", tt.size, armed)
		}
	}
}
