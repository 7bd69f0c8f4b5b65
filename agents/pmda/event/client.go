package event

import "github.com/gopcp/pmcd/pdu"

// client returns the client with the given number, and makes one if there is none.
// It returns nil for a new client of a closed queue.
func (q *Queue) client(id int32) *client {
	c := q.clients[id]
	if c == nil && !q.closed {
		c = new(client)
		q.clients[id] = c
	}
	return c
}

// Activate makes a client active without a call of TakeRecords: the client gets all
// later events (pmdaEventNewActiveQueue).
func (q *Queue) Activate(id int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.activate(id)
}

// activate makes a client active and returns it, or nil for a new client of a closed
// queue.
func (q *Queue) activate(id int32) *client {
	c := q.client(id)
	if c != nil && !c.active {
		c.active, c.pos = true, q.next
		q.active++
		q.addReader(c)
	}
	return c
}

// Allow sets whether a client may see the events (pmdaEventSetAccess). It has no
// effect on a client with a filter.
func (q *Queue) Allow(id int32, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.client(id); c != nil {
		c.allowed = ok
	}
}

// SetFilter sets the filter of a client: the client may see the events for which keep
// returns true. If keep is nil, the client has no filter and may see all events. (In
// pmdaEventSetFilter, true has the opposite meaning.)
func (q *Queue) SetFilter(id int32, keep func(Event) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.client(id); c != nil {
		c.keep, c.allowed = keep, true
	}
}

// TakeRecords returns records of the events that a client has not read yet, and marks
// these events as read (pmdaEventQueueRecords). It calls decode for each event that
// the client may see. decode adds any number of records, usually one, to the Array,
// and must not retain it. The records are valid until the next call of TakeRecords
// for this queue. If there are none, the metric has no value.
func (q *Queue) TakeRecords(id int32, decode func(Event, *Array)) []pdu.EventRecord {
	a := &q.array
	a.Reset()
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.activate(id)
	if c == nil {
		return nil
	}
	if c.keep == nil && !c.allowed {
		q.moveTo(c, q.next)
	}
	end := q.next // events may be appended faster than they are decoded
	for full := false; c.active && c.pos < end && !full; {
		if c.pos < q.first {
			a.AddMissed(q.lastLost, q.first-c.pos)
			c.pos = q.first
		}
		var batch [32]Event
		n := 0
		for n < len(batch) && c.pos+uint64(n) < end {
			batch[n] = q.slot(c.pos + uint64(n)).Event
			n++
		}
		done := q.decode(batch[:n], c.keep, decode)
		full = done < n
		if c.active {
			q.moveTo(c, c.pos+uint64(done))
		}
	}
	q.endIfDone(id)
	q.callDone()
	return a.Records()
}

// decode calls keep and decode for events, without holding q.mu. It returns the number
// of events whose records fit in the value.
func (q *Queue) decode(events []Event, keep func(Event) bool, decode func(Event, *Array)) int {
	q.mu.Unlock()
	defer q.mu.Lock() // deferred because keep and decode may panic
	a := &q.array
	for i, e := range events {
		if keep != nil && !keep(e) {
			continue
		}
		m := a.mark()
		decode(e, a)
		if a.size > MaxValue-8 && m.recs > 0 {
			a.truncate(m)
			return i
		}
	}
	return len(events)
}

// EndClient removes a client (pmdaEventEndClient). The client may be unknown, because
// pmcd reports the end of all clients to an agent.
func (q *Queue) EndClient(id int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(id)
	q.callDone()
}

// end removes a client.
func (q *Queue) end(id int32) {
	c := q.clients[id]
	if c == nil {
		return
	}
	delete(q.clients, id)
	if c.active {
		c.active = false
		q.active--
		q.removeReader(c)
		q.freeRead()
	}
}

// Close makes Append fail (pmdaEventQueueShutdown). Active clients can still read the
// events in the queue. A client that has read all of them is removed.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for id := range q.clients {
		q.endIfDone(id)
	}
	q.callDone()
}

// endIfDone removes a client of a closed queue if it has nothing to read.
func (q *Queue) endIfDone(id int32) {
	if c := q.clients[id]; q.closed && c != nil && (!c.active || c.pos == q.next) {
		q.end(id)
	}
}

// callDone calls q.done if q is closed and has no clients.
func (q *Queue) callDone() {
	if q.closed && len(q.clients) == 0 && q.done != nil {
		q.done()
		q.done = nil
	}
}

// Stats are the statistics of a queue, which C PMDAs export as metrics.
type Stats struct {
	Count        uint64 // number of events so far (pmdaEventQueueCounter)
	Bytes        uint64 // bytes of data of these events (pmdaEventQueueBytes)
	Clients      int    // number of active clients (pmdaEventQueueClients)
	QueuedEvents int    // number of events in the queue
	QueuedBytes  int    // bytes of data of these events (pmdaEventQueueMemory)
}

// Stats returns the statistics of the queue.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{q.count, q.bytes, q.active, int(q.next - q.first), q.queuedBytes}
}
