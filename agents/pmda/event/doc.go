// Package event is for agents with event metrics: the value of such a metric is a
// list of what has happened since the same client fetched it before. The package is
// to Go what pmdaEventArray(3) and pmdaEventQueue(3) are to C.
//
// A [Queue] belongs to one metric, or to one of its instances. The code that detects
// events, for example a goroutine that reads a log, appends them. The function that
// fetches the metric for a client decodes the events that this client has not read
// yet into an [Array] of records:
//
//	q.Allow(client, true)
//	recs := q.TakeRecords(client, func(e event.Event, a *event.Array) {
//		a.AddRecord(e.Time, pdu.EventPoint)
//		a.AddParam(lineID, pdu.MetricString, e.Data)
//	})
//	if len(recs) > 0 {
//		v.SetEvents(recs)
//	}
//
// If there are no records, the function should set no value (PMDA_FETCH_NOVALUES).
// When a client has disconnected, the agent must call [Queue.EndClient] or, for all
// queues at once, [Group.EndContext]. Otherwise the queue fills up with events for
// that client.
//
// # Clients
//
// A client becomes active with its first call of [Queue.TakeRecords], which returns
// nothing. After that it gets each event once, in order. A queue keeps an event until
// all active clients have read it, and keeps no events without active clients. If the
// queue is full, it drops the oldest events. A client that has not read them gets a
// record with the flag EventMissed and their number in their place.
//
// A client gets no events until [Queue.Allow] has allowed it to or [Queue.SetFilter]
// has set a filter for it. Events that it may not see do not count as missed. Agents
// usually call both functions when a client stores into a control metric.
//
// # Differences from C
//
// The queues of libpcp_pmda (6.0.3) behave in another way than their manual page
// describes and than this package does if clients do not fetch in turn:
//
//   - A client gets events again that others have not read yet, and then the others
//     never get them.
//   - A new client gets events that were queued for others, with the same effect.
//   - Events that only a disconnected client had not read stay in the queue, and
//     others get them again.
//   - There is no record of missed events. Here this record is in the place of the
//     events and has the time of the last one.
//   - Making a queue empties all other queues.
//
// Further differences are intended:
//
//   - A value has at most [MaxValue] bytes, unless a single event has more. The next
//     fetch returns the rest.
//   - The number of events in a queue is limited, and not only their size.
//   - A closed queue delivers the events that it has, but accepts no more.
//   - A decoder cannot fail. In C, its error is returned by each following fetch, and
//     records that were decoded before are lost.
package event
