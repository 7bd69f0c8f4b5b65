package event

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// scripts are scripts for runScript. want has the results other than "ok", where a word
// is an event at 1.000005; see expand.
var scripts = []struct{ name, script, want string }{
	{
		"no clients: events are counted",
		"queue 10; append 1 5 a; append 1 5 bcd; stats; allow 1 1; records 1; stats",
		"stats 2 4 0 0; records; stats 2 4 1 0",
	},
	{
		"each client gets each event once",
		"queue 10; allow 1 1; allow 2 1; records 1; records 2; append 1 5 a; records 1; records 1; append 2 6 b; records 1; stats; records 2; records 2; stats",
		"records; records; records a; records; records b@2.000006; stats 2 2 2 2; records a b@2.000006; records; stats 2 2 2 0",
	},
	{
		"a new client gets later events",
		"queue 10; allow 1 1; allow 2 1; records 1; append 1 5 a; records 2; append 1 5 b; records 2; records 1",
		"records; records; records b; records a b",
	},
	{
		"events that only one client has not read are removed with it",
		"queue 10; allow 1 1; allow 2 1; records 1; records 2; append 1 5 a; records 1; stats; end 2; stats; records 1; append 1 5 b; end 1; stats; append 1 5 c; stats",
		"records; records; records a; stats 1 1 2 1; stats 1 1 1 0; records; stats 2 2 0 0; stats 3 3 0 0",
	},
	{
		"a number that is reused is another client",
		"queue 10; allow 1 1; records 1; append 1 5 a; end 1; end 1; end 7; records 1; append 1 5 b; records 1; allow 1 1; append 1 5 c; records 1",
		"records; records; records; records c",
	},
	{
		"missed events are counted for each client",
		"queue 3; allow 1 1; allow 2 1; records 1; records 2; append 1 5 a; append 1 5 b; records 1; append 1 5 c; append 1 5 d; stats; records 1; records 2; append 1 5 e; records 2; records 1",
		"records; records; records a b; stats 4 4 2 3; records c d; records missed:1 b c d; records e; records e",
	},
	{
		"a large event replaces several",
		"queue 5; allow 1 1; records 1; append 1 5 a; append 1 5 b; append 1 5 c; append 1 5 DEFGH; stats; records 1; stats",
		"records; stats 4 8 1 5; records missed:3 DEFGH; stats 4 8 1 0",
	},
	{
		"an event that is too large is counted, and replaces no others",
		"queue 3; allow 1 1; records 1; append 1 5 a; append 1 5 BCDE; append 1 5 f; stats; records 1",
		"records; stats 3 6 1 2; records a f",
	},
	{
		"a client that may not see events does not miss them",
		"queue 2; records 1; append 1 5 a; append 1 5 b; append 1 5 c; records 1; append 1 5 d; allow 1 1; records 1; append 1 5 e; allow 1 0; records 1; allow 1 1; records 1; stats",
		"records; records; records d; records; records; stats 5 5 1 0",
	},
	{
		"a filter has precedence over Allow",
		"queue 20; filter 1 2; records 1; append 1 5 a; append 1 5 bb; records 1; allow 1 0; append 1 5 c; append 1 5 ddd; records 1; filter 1 4; append 1 5 e; append 1 5 ffff; records 1; unfilter 1; append 1 5 g; records 1; allow 1 0; append 1 5 h; records 1; stats",
		"records; records bb; records ddd; records ffff; records g; records; stats 8 14 1 0",
	},
	{
		"an event may be any number of records",
		"queue 20; allow 1 1; records 1; append 1 5 0a; append 1 5 2b; append 1 5 c; records 1; append 1 5 0; records 1; stats",
		"records; records 2b 2b c; records; stats 4 6 1 0",
	},
	{
		"a closed queue delivers its events",
		"queue 9; allow 1 1; allow 2 1; records 1; records 2; append 1 5 a; records 2; close; append 1 5 b; stats; records 3; records 2; records 1; stats; records 1; close",
		"records; records; records a; error; stats 1 1 1 1; records; records; records a; stats 1 1 0 0; records",
	},
	{
		"events of a closed queue are removed with its clients",
		"queue 2; allow 1 1; records 1; append 1 5 a; append 1 5 b; append 1 5 c; close; stats; end 1; stats; append 1 5 d; allow 1 1; records 1; stats",
		"records; stats 3 3 1 2; stats 3 3 0 0; error; records; stats 3 3 0 0",
	},
}

// expand expands the events in a line of want to records as runScript returns them.
func expand(line string) string {
	words := strings.Fields(line)
	if words[0] != "records" {
		return strings.Join(words, " ")
	}
	for i, w := range words[1:] {
		data, at, ok := strings.Cut(w, "@")
		if !ok {
			at = "1.000005"
		}
		if !strings.HasPrefix(w, "missed:") {
			words[1+i] = fmt.Sprintf("%s/1,250.0.1:6:%s,250.0.2:3:%d", at, data, len(data))
		}
	}
	return strings.Join(words, " ")
}

// lines splits a script or its results.
func lines(s string) []string {
	l := strings.Split(s, ";")
	for i := range l {
		l[i] = strings.TrimSpace(l[i])
	}
	return l
}

// The scripts have the wanted results.
func TestQueue(t *testing.T) {
	for _, tt := range scripts {
		t.Run(tt.name, func(t *testing.T) {
			got := slices.DeleteFunc(runScript(t, lines(tt.script)), func(s string) bool { return s == "ok" })
			want := lines(tt.want)
			for i := range want {
				want[i] = expand(want[i])
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s\n got %s\nwant %s", tt.script, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
			}
		})
	}
}

// decodeOne makes one record of an event.
func decodeOne(e Event, a *Array) {
	a.AddRecord(e.Time, 0)
	a.AddParam(textID, pdu.MetricString, e.Data)
}

// newActiveTestQueue returns a queue whose client 1 is active and allowed.
func newActiveTestQueue(typ pdu.MetricType, maxBytes int) *Queue {
	q := NewQueue(typ, maxBytes)
	q.Allow(1, true)
	q.Activate(1)
	return q
}

// Append fails for events that are too large and after Close.
func TestAppendErrors(t *testing.T) {
	q := newActiveTestQueue(pdu.MetricEvent, 3)
	if err := q.Append([]byte("four"), time.Time{}); err != ErrTooLong {
		t.Error(err)
	}
	b := []byte("abc")
	if err := q.Append(b, time.Time{}); err != nil {
		t.Error(err)
	}
	b[0] = 'x' // the queue has a copy
	if r := q.TakeRecords(1, decodeOne); len(r) != 1 || string(r[0].Params[0].Value) != "abc" {
		t.Errorf("%+v", r)
	}
	q.Close()
	if err := q.Append(nil, time.Time{}); err != ErrClosed {
		t.Error(err)
	}
}

// The number of events without data is limited.
func TestManySmallEvents(t *testing.T) {
	q := newActiveTestQueue(pdu.MetricEvent, 100*minEvent)
	for i := range 1000 {
		if err := q.Append(nil, time.Unix(int64(i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	if s := q.Stats(); s != (Stats{Count: 1000, Clients: 1, QueuedEvents: 100}) {
		t.Errorf("%+v", s)
	}
	// The record of missed events has the time of the last one.
	r := q.TakeRecords(1, decodeOne)
	if len(r) != 101 || r[0].Missed != 900 || r[0].Sec != 899 || r[1].Sec != 900 || r[100].Sec != 999 {
		t.Errorf("%d records: %+v", len(r), r[:2])
	}
}

// Events that do not fit in a value are in the next one.
func TestMaxValue(t *testing.T) {
	for _, typ := range []pdu.MetricType{pdu.MetricEvent, pdu.MetricHighResEvent} {
		q := newActiveTestQueue(typ, 16*MaxValue)
		huge := 3 * MaxValue
		sizes := []int{1, MaxValue / 2, MaxValue / 4, MaxValue / 4, 2, huge, 3, MaxValue - 50, 4}
		for _, n := range sizes {
			if err := q.Append(make([]byte, n), time.Unix(1, 0)); err != nil {
				t.Fatal(err)
			}
		}
		var got []int
		calls := 0
		for ; q.Stats().QueuedEvents > 0; calls++ {
			recs := q.TakeRecords(1, decodeOne)
			b, err := pdu.AppendEvents(nil, typ, recs)
			if err != nil || len(recs) == 0 {
				t.Fatalf("%d records: %v", len(recs), err)
			}
			if len(b)+4 > MaxValue && (len(recs) > 1 || len(b) < huge) {
				t.Errorf("%d bytes in %d records", len(b), len(recs))
			}
			for _, r := range recs {
				got = append(got, len(r.Params[0].Value))
			}
		}
		if !slices.Equal(got, sizes) || calls != 6 {
			t.Errorf("%d calls, %v", calls, got)
		}
	}
}

// Events may be appended and dropped while others are decoded.
func TestAppendFromDecoder(t *testing.T) {
	q := newActiveTestQueue(pdu.MetricEvent, 100*minEvent)
	n := 0
	put := func() {
		q.Append(fmt.Appendf(nil, "%03d", n), time.Unix(int64(n), 0))
		n++
	}
	for range 50 {
		put()
	}
	first := true
	recs := q.TakeRecords(1, func(e Event, a *Array) {
		if first {
			for range 90 { // the first 40 are dropped, of which 32 are being decoded
				put()
			}
			first = false
		}
		decodeOne(e, a)
	})
	next := 0
	for _, r := range recs {
		if r.Flags == pdu.EventMissed {
			if next != 32 || r.Missed != 8 || r.Sec != 39 {
				t.Errorf("%+v before event %d", r, next)
			}
			next += int(r.Missed)
		} else if got := string(r.Params[0].Value); got != fmt.Sprintf("%03d", next) {
			t.Fatalf("event %s, want %d", got, next)
		} else {
			next++
		}
	}
	checkInvariants(t, q)
	if recs = q.TakeRecords(1, decodeOne); next != 50 || len(recs) != 90 || recs[0].Sec != 50 {
		t.Errorf("first %d events, then %d", next, len(recs))
	}
}

// A panic in a decoder does not leave the queue locked.
func TestPanic(t *testing.T) {
	q := newActiveTestQueue(pdu.MetricEvent, 100)
	q.Append([]byte("a"), time.Unix(1, 0))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		q.TakeRecords(1, func(Event, *Array) { panic("decoder") })
	}()
	checkInvariants(t, q)
	if r := q.TakeRecords(1, decodeOne); len(r) != 1 {
		t.Errorf("%+v", r)
	}
}

// A decoder may end its client.
func TestEndFromDecoder(t *testing.T) {
	q := newActiveTestQueue(pdu.MetricEvent, 100)
	q.Append([]byte("a"), time.Unix(1, 0))
	q.Append([]byte("b"), time.Unix(1, 0))
	q.TakeRecords(1, func(Event, *Array) { q.EndClient(1) })
	checkInvariants(t, q)
	if s := q.Stats(); s.Clients != 0 || s.QueuedEvents != 0 {
		t.Errorf("%+v", s)
	}
}

// An empty queue does not keep the memory of many events.
func TestMemoryIsReleased(t *testing.T) {
	q := newActiveTestQueue(pdu.MetricEvent, 1<<20)
	for range 20000 {
		q.Append([]byte("a"), time.Unix(1, 0))
	}
	if n := len(q.TakeRecords(1, decodeOne)); n != 20000 {
		t.Fatalf("%d records", n)
	}
	q.TakeRecords(1, decodeOne)
	if len(q.ring) > keepSlots || cap(q.array.recs)+cap(q.array.params)+cap(q.array.values) > 0 {
		t.Errorf("keeps %d slots, %d records", len(q.ring), cap(q.array.recs))
	}
}

// TakeRecords does not allocate.
func TestTakeRecordsDoesNotAllocate(t *testing.T) {
	q := newActiveTestQueue(pdu.MetricHighResEvent, 1<<20)
	data := []byte("an event")
	n := testing.AllocsPerRun(100, func() {
		for range 10 {
			q.Append(data, time.Unix(1, 2))
		}
		if len(q.TakeRecords(1, decode)) != 10 {
			t.Fatal("not 10 records")
		}
	})
	if n > 10 { // Append copies the data
		t.Errorf("%v allocations", n)
	}
}
