package event_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/event"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// newAgent returns an agent with two event metrics, one of each type, and the metric
// of their parameters. There are 3*(n-1) events before the n-th fetch. A queue has room
// for six.
func newAgent(domain int) (agents.Agent, error) {
	var events event.Group
	lineID := pdu.NewPMID(domain, 0, 2)
	metric := func(item int, typ pdu.MetricType) (pmda.Metric, *event.Queue) {
		q := events.NewQueue(typ, 100)
		return pmda.Metric{
			Item: item,
			Type: typ,
			Sem:  pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				client := v.Request().Client().Number
				q.Allow(client, true)
				recs := q.TakeRecords(client, func(e event.Event, a *event.Array) {
					a.AddRecord(e.Time, pdu.EventPoint)
					a.AddParam(lineID, pdu.MetricString, e.Data)
				})
				if len(recs) > 0 {
					v.SetEvents(recs)
				}
				return nil
			},
		}, q
	}
	low, lowq := metric(0, pdu.MetricEvent)
	high, highq := metric(1, pdu.MetricHighResEvent)
	n, lines := 0, 0
	return pmda.New(pmda.Config{
		Name:   "events",
		Domain: domain,
		Metrics: []pmda.Metric{
			low, high,
			{Item: 2, Type: pdu.MetricString, Sem: pdu.SemInstant},
		},
		BeforeFetch: func(context.Context, *pmda.Request, []pdu.PMID) error {
			for range 3 * n {
				lines++
				for _, q := range []*event.Queue{lowq, highq} {
					q.Append(fmt.Appendf(nil, "this is line %02d", lines), time.Unix(1, 23456000))
				}
			}
			n++
			return nil
		},
		EndClient: func(c *pmda.Client) { events.EndContext(c.Number) },
	})
}

// If the name of the test binary is pmdaevents, it serves newAgent.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "pmdaevents" {
		a, err := newAgent(250)
		if err == nil {
			err = serve.Serve(context.Background(), a, stdio{os.Stdin, os.Stdout})
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // of child processes
	os.Exit(m.Run())
}

type stdio struct {
	io.Reader
	io.WriteCloser
}

// dbpmda(1) decodes the values, and missed events are counted.
func TestPeerDbpmda(t *testing.T) {
	dbpmda := testutil.NeedPeer(t, "dbpmda")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agent := filepath.Join(t.TempDir(), "pmdaevents")
	if err := os.Symlink(self, agent); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(dbpmda, "-f", "-e", "-n", filepath.Join("testdata", "pmns"))
	cmd.Env = append(os.Environ(), "PCP_DERIVED_CONFIG=", "TZ=UTC")
	cmd.Stdin = strings.NewReader("open pipe " + agent + "\n" +
		"getdesc on\n" +
		strings.Repeat("fetch 250.0.0 250.0.1\n", 4))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "record") || strings.Contains(line, "No values") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	// dbpmda adds the number of missed events again for each record that follows
	// theirs, so 3 become 18 here.
	const low, high = "timestamps 00:00:01.023...00:00:01.023]", "timestamps 00:00:01.023456000...00:00:01.023456000]"
	want := []string{
		"250.0.0 (events.low): No values returned!", "250.0.1 (events.high): No values returned!",
		"value [3 event records " + low, "value [3 event records " + high,
		"value [6 event records " + low, "value [6 event records " + high,
		"value [7 event records (18 missed) " + low, "value [7 event records (18 missed) " + high,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\n got %q\nwant %q", out, got, want)
	}
}

func ExampleQueue() {
	q := event.NewQueue(pdu.MetricEvent, 1<<20)
	fetch := func(client int32) {
		recs := q.TakeRecords(client, func(e event.Event, a *event.Array) {
			a.AddRecord(e.Time, pdu.EventPoint)
			a.AddParam(pdu.NewPMID(250, 0, 2), pdu.MetricString, e.Data)
		})
		fmt.Printf("client %d:", client)
		for _, r := range recs {
			fmt.Printf(" %s", r.Params[0].Value)
		}
		fmt.Println()
	}
	q.Allow(1, true)
	q.Allow(2, true)
	fetch(1)
	q.Append([]byte("start"), time.Now())
	fetch(1)
	fetch(2)
	q.Append([]byte("stop"), time.Now())
	fetch(2)
	fetch(1)
	q.EndClient(1)
	q.EndClient(2)
	// Output:
	// client 1:
	// client 1: start
	// client 2:
	// client 2: stop
	// client 1: stop
}
