package wire_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// OnPDU is called once with each whole PDU, in the order of the stream.
func TestOnPDU(t *testing.T) { forEachPair(t, testOnPDU) }

func testOnPDU(t *testing.T, pair pairFunc) {
	testutil.CheckGoroutines(t)
	var mu sync.Mutex
	var got []string
	c, there, r := fakePMDA(t, pair, wire.Options{OnPDU: func(sent bool, b []byte) {
		mu.Lock()
		defer mu.Unlock()
		n, typ, _ := pdu.Header(b)
		if int(n) != len(b) {
			t.Errorf("%d bytes of a PDU of %d", len(b), n)
		}
		got = append(got, fmt.Sprint(sent, " ", typ))
	}})
	c.Notify(transport.Notice{Client: 3, End: true, Attrs: []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte("1")}}})
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{metricID}})
	if err != nil {
		t.Fatal(err)
	}
	call, err := c.Send(&transport.Call{Req: req, Profile: transport.NewProfile(new(pdu.Profile)), Timeout: testutil.Hangs})
	if err != nil {
		t.Fatal(err)
	}
	for range 4 {
		if _, err := r.Next(); err != nil {
			t.Fatal(err)
		}
	}
	writePDUs(t, there, &pdu.Result{Sets: []pdu.ValueSet{{PMID: metricID}}})
	if _, err := call.Recv(nil); err != nil {
		t.Fatal(err)
	}
	want := []string{"false CREDS", "true CREDS", "true ERROR", "true ATTR", "true PROFILE", "true FETCH", "false RESULT"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
