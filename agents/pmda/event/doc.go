// Package event lets an agent have event metrics: metrics whose value is what
// has happened since the same client asked before. It is what
// pmdaEventArray(3) and pmdaEventQueue(3) are to PMDAs in C.
//
// A [Queue] stands for one metric, or for one of its instances. Whatever finds
// the events, a goroutine that reads a log for example, appends them as they
// come; fetching the metric for a client decodes those that this client has
// not seen yet into an [Array] of records:
//
//	q.Allow(client, true)
//	recs := q.Records(client, func(e event.Event, a *event.Array) {
//		a.Record(e.Time, pdu.EventPoint)
//		a.Param(lineID, pdu.MetricString, e.Data)
//	})
//
// Without records there is no value (PMDA_FETCH_NOVALUES). The agent has to
// say when a client has gone, by [Queue.EndClient] or, for all queues at once, by
// [Group.EndContext]; else the queue fills up for it.
//
// # Clients
//
// A client becomes active with its first call of [Queue.TakeRecords], which has
// nothing to return yet, and sees each event after that once, in order. Events
// are kept only while there are active clients, and each until the last of
// them has read it. If the queue is full the oldest events go; a client that
// had not read them finds a record with the flag EventMissed and their number
// in their place.
//
// A client sees nothing as long as it has neither been allowed to, by
// [Queue.Allow], nor has a filter, which [Queue.SetFilter] gives it. What it
// may not see it does not miss either. Both are mostly done in a store.
//
// # Differences from C
//
// The queues of libpcp_pmda (6.0.3) behave otherwise as soon as clients are not
// in step, though their man page says what is done here:
//
//   - a client is given again what others have not read yet, and then they
//     never see it;
//   - a new client is given what was queued for others, with the same effect;
//   - events that only a client which has gone had not read stay, and are given
//     to others again;
//   - nobody is told of missed events; here the record is where they were, with
//     the time of the last of them;
//   - making a queue empties all others.
//
// And on purpose: a value has no more than [MaxValue] bytes if that can be
// helped, and the rest comes with the next fetch; the number of events is
// bounded as well as their size; a queue that is closed gives to its clients
// what it has and takes no more; a decoder has no way to fail, since in C its
// failure comes back with each fetch, and takes what was decoded before with
// it.
package event
