package event

import "github.com/gopcp/pmcd/pdu"

// client returns what is known of a client; nil if it is unknown to a queue
// that is closed.
func (q *Queue) client(id int32) *client {
	c := q.clients[id]
	if c == nil && !q.closed {
		c = new(client)
		q.clients[id] = c
	}
	return c
}

// Activate has a client see all events from now on, without a first call of
// Records (pmdaEventNewActiveQueue).
func (q *Queue) Activate(id int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.activate(id)
}

func (q *Queue) activate(id int32) *client {
	c := q.client(id)
	if c != nil && !c.active {
		c.active, c.pos = true, q.next
		q.active++
		q.addReader(c)
	}
	return c
}

// Allow says whether a client may see the events (pmdaEventSetAccess). If it
// has a filter, that decides alone.
func (q *Queue) Allow(id int32, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.client(id); c != nil {
		c.allowed = ok
	}
}

// SetFilter lets a client see the events for which keep returns true, in place
// of the filter that it had; all if keep is nil (pmdaEventSetFilter, where true
// means the opposite).
func (q *Queue) SetFilter(id int32, keep func(Event) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.client(id); c != nil {
		c.keep, c.allowed = keep, true
	}
}

// TakeRecords returns what a client has not seen yet and marks it as seen
// (pmdaEventQueueRecords). It calls decode for each event that the client may
// see; decode adds any number of records to the Array, often one, and must not
// keep it. The records are valid until the next call of TakeRecords; none are left
// when there is no value.
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
	end := q.next // others may append faster than we decode
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
		seen := q.decode(batch[:n], c.keep, decode)
		full = seen < n
		if c.active {
			q.moveTo(c, c.pos+uint64(seen))
		}
	}
	q.endIfDone(id)
	q.callDone()
	return a.Records()
}

// decode calls the author's functions, without the lock, for events, and
// returns for how many of them there was room.
func (q *Queue) decode(events []Event, keep func(Event) bool, decode func(Event, *Array)) int {
	q.mu.Unlock()
	defer q.mu.Lock() // the author's functions may panic
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

// EndClient forgets a client (pmdaEventEndClient). One that the queue does not know
// is nothing special: pmcd tells agents of all clients.
func (q *Queue) EndClient(id int32) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.end(id)
	q.callDone()
}

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

// Close says that no more events will come (pmdaEventQueueShutdown). Active
// clients can read those that are there; a client that has, or that ends, is
// forgotten, and with the last one what the queue holds.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	for id := range q.clients {
		q.endIfDone(id)
	}
	q.callDone()
}

// endIfDone forgets a client of a closed queue that has nothing to read.
func (q *Queue) endIfDone(id int32) {
	if c := q.clients[id]; q.closed && c != nil && (!c.active || c.pos == q.next) {
		q.end(id)
	}
}

// callDone calls done after a closed queue's last client.
func (q *Queue) callDone() {
	if q.closed && len(q.clients) == 0 && q.done != nil {
		q.done()
		q.done = nil
	}
}

// Stats are what C PMDAs export of a queue.
type Stats struct {
	Count        uint64 // events so far (pmdaEventQueueCounter)
	Bytes        uint64 // and the bytes of their data (pmdaEventQueueBytes)
	Clients      int    // active clients (pmdaEventQueueClients)
	QueuedEvents int    // events that are held
	QueuedBytes  int    // and the bytes of their data (pmdaEventQueueMemory)
}

// Stats returns the state of the queue.
func (q *Queue) Stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return Stats{q.count, q.bytes, q.active, int(q.next - q.first), q.queuedBytes}
}
