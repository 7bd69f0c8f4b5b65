// Package trace lets a program report how often things happen and how long they take, as
// metrics of Performance Co-Pilot. It is to Go what libpcp_trace (pmdatrace(3)) is to C, and
// needs no cgo.
//
// A program makes one Client and calls it from any goroutine:
//
//	client := trace.New(trace.Options{Async: true})
//	defer client.Close()
//
//	func handle(w http.ResponseWriter, r *http.Request) {
//		t := client.Begin("request")
//		defer t.End(r.Context())
//		...
//	}
//
// The values go by TCP to the agent trace of the local host, which is PCP's pmdatrace or
// the one in this module, as trace.transact.*, trace.point.*, trace.observe.* and
// trace.counter.*:
//
//	pminfo -f trace.transact.rate
//
// A tag names what is measured. It is an instance of these metrics, has 1 to 124 bytes, and
// should be one of a small number: the agent keeps values for each tag.
//
// # Synchronous and asynchronous clients
//
// By default a Client is synchronous: a call returns when the agent has acknowledged the
// value, and returns an error if it has not. With Options.Async a call only puts the value
// into a queue and never blocks; a goroutine sends what is in the queue. If the queue is full
// or the agent cannot be reached, the call drops the value and returns an error.
//
// Without a connection, calls fail at once. The Client connects again by itself, after
// the delays in Options.Reconnect. A program can ignore all errors: it works without an agent.
//
// # Environment
//
// The variables of libpcp_trace replace fields of Options that are zero:
//
//	PCP_TRACE_HOST        Host
//	PCP_TRACE_PORT        Port
//	PCP_TRACE_TIMEOUT     ConnectTimeout, in seconds
//	PCP_TRACE_REQTIMEOUT  RequestTimeout, in seconds
//	PCP_TRACE_RECONNECT   Reconnect, in seconds, with commas
//	PCP_TRACE_NOAGENT     Disabled, if it is set
//
// # libpcp_trace
//
//	pmtracebegin(3)       Client.Begin. Each Transaction is one of its own, so any number
//	                      with the same tag may be in progress
//	pmtraceend(3)         Transaction.End
//	pmtraceabort(3)       Transaction.Abort
//	pmtracepoint(3)       Client.Point
//	pmtraceobs(3)         Client.Observe
//	pmtracecounter(3)     Client.Counter
//	pmtracestate(3)       Options.Async, Options.Disabled
//	pmtraceerrstr(3)      Error.Error
//
// libpcp_trace differs: it does not report that a connection has broken, and an
// asynchronous program does not connect again.
package trace
