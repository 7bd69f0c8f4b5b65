package event

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

var (
	textID = pdu.NewPMID(250, 0, 1)
	sizeID = pdu.NewPMID(250, 0, 2)
)

// decode is a decoder for tests. An event whose text starts with '0' has no record, with
// '2' two records, otherwise one.
func decode(e Event, a *Array) {
	n := 1
	if len(e.Data) > 0 && (e.Data[0] == '0' || e.Data[0] == '2') {
		n = int(e.Data[0] - '0')
	}
	for range n {
		a.AddRecord(e.Time, pdu.EventPoint)
		a.AddParam(textID, pdu.MetricString, e.Data)
		a.AddUint64(sizeID, uint64(len(e.Data)))
	}
}

// text returns records as testdata/queue.c prints them.
func text(recs []pdu.EventRecord) string {
	b := new(strings.Builder)
	for _, r := range recs {
		if r.Flags == pdu.EventMissed {
			fmt.Fprintf(b, " missed:%d", r.Missed)
			continue
		}
		fmt.Fprintf(b, " %d.%06d/%x", r.Sec, r.Nsec/1000, r.Flags)
		for _, p := range r.Params {
			fmt.Fprintf(b, ",%v:%d:", p.PMID, p.Type)
			if p.Type == pdu.MetricString {
				b.Write(p.Value)
			} else {
				fmt.Fprint(b, binary.BigEndian.Uint64(p.Value))
			}
		}
	}
	return b.String()
}

// runScript runs a script, whose lines are operations on one queue, and returns a result
// for each line. Scripts are also for testdata/queue.c:
//
//	queue BYTES
//	append SEC USEC TEXT
//	allow CLIENT 0|1
//	filter CLIENT SIZE       events of that size or more
//	unfilter CLIENT
//	records CLIENT
//	end CLIENT
//	close
//	stats                    events, bytes, active clients, bytes queued
func runScript(t *testing.T, script []string) []string {
	t.Helper()
	var out []string
	var q *Queue
	for _, line := range script {
		word, rest, _ := strings.Cut(line, " ")
		var id int32
		var n, usec int64
		var data string
		scan := func(args ...any) {
			if _, err := fmt.Sscan(rest, args...); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
		}
		result := "ok"
		switch word {
		case "queue":
			scan(&n)
			q = NewQueue(pdu.MetricEvent, int(n))
		case "append":
			scan(&n, &usec, &data)
			if err := q.Append([]byte(data), time.Unix(n, usec*1000)); err == ErrClosed {
				result = "error"
			}
		case "allow":
			scan(&id, &n)
			q.Allow(id, n != 0)
		case "filter":
			scan(&id, &n)
			q.SetFilter(id, func(e Event) bool { return len(e.Data) >= int(n) })
		case "unfilter":
			scan(&id)
			q.SetFilter(id, nil)
		case "records":
			scan(&id)
			result = "records" + text(q.TakeRecords(id, decode))
		case "end":
			scan(&id)
			q.EndClient(id)
		case "close":
			q.Close()
		case "stats":
			s := q.Stats()
			result = fmt.Sprintf("stats %d %d %d %d", s.Count, s.Bytes, s.Clients, s.QueuedBytes)
		default:
			t.Fatalf("unknown operation: %s", line)
		}
		out = append(out, result)
		checkInvariants(t, q)
	}
	return out
}

// checkInvariants checks that the counters of q agree with its contents.
func checkInvariants(t *testing.T, q *Queue) {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	queued, active := 0, q.atEnd
	for _, s := range q.ring { // slots without an event must be zero
		queued += len(s.Data)
		active += s.readers
	}
	for id, c := range q.clients {
		if c.active {
			active--
		}
		if c.pos > q.next {
			t.Errorf("client %d is at %d of %d", id, c.pos, q.next)
		}
	}
	if queued != q.queuedBytes || queued > q.maxBytes || q.next-q.first > q.maxEvents {
		t.Errorf("%d events of %d bytes, counted as %d, in a queue of %d", q.next-q.first, queued, q.queuedBytes, q.maxBytes)
	}
	if active != 0 {
		t.Errorf("%d more readers than active clients", active)
	}
	if q.first < q.next && q.slot(q.first).readers == 0 {
		t.Error("the oldest event has no readers")
	}
}
