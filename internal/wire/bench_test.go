package wire_test

import (
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// One fetch of one metric, over os.Pipe, to a child process and back.
func BenchmarkFetchChild(b *testing.B) { benchmarkFetch(b, startSelf(b)) }

func BenchmarkFetchInline(b *testing.B) {
	c := transport.Inline(oneMetricAgent{})
	defer c.Close()
	benchmarkFetch(b, c)
}

func benchmarkFetch(b *testing.B, client transport.Transport) {
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{metricID}})
	if err != nil {
		b.Fatal(err)
	}
	c := transport.Call{Profile: transport.NewProfile(new(pdu.Profile)), Req: req, Timeout: 5 * time.Second}
	var reply []byte
	b.ReportAllocs()
	for b.Loop() {
		if reply, err = transport.Do(client, &c, reply[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
