// Package pmapi is a client of pmcd, the collector daemon of Performance Co-Pilot (PCP). It
// needs neither cgo nor PCP's libraries, and runs wherever Go does.
//
// [Dial] connects to the pmcd of a host specification, such as "local:", "pcps://host" or
// "host:44321@proxy", and returns a [Client]. With it a program
//
//   - finds metrics: [Client.Lookup] and [Client.Traverse] go from names to PMIDs,
//     [Client.Names] goes back;
//   - asks what they are: [Client.Desc] has type, semantics and units, [Client.Instances] the
//     instances, [Client.Text] the help, [Client.Labels] the labels;
//   - fetches values: [Client.Fetch] into a [Result], and [Decode] takes a [Value] from it; a
//     [Group] does both for variables of Go, and makes rates of counters;
//   - changes values: [Client.Store].
//
// Most programs need no more than a Group: see its example.
//
// # Metrics
//
// A metric has a name in a tree, such as kernel.all.load, and a number, its PMID, which
// requests use. It has one value or, with an instance domain, a value for each instance of
// that: one for each disk, say. Instances have a number and a name. They can come and go, and
// several metrics can have the same domain.
//
// The descriptor of a metric says what its values are: their type; their units, such as
// kilobytes; and their semantics. The value of a counter only increases, so what is of
// interest is its rate. The value of an instant or discrete metric stands for itself; that of
// a discrete one rarely changes.
//
// The terms are those of PMAPI(3). The types for them, and the error codes of type
// [pdu.Errno], are in package pdu. A Client is what PMAPI calls a context for a host; there
// are none for archives, and there are no derived metrics.
//
// # Errors
//
// An error of pmcd wraps a pdu.Errno: test it with errors.Is(err, pdu.ErrnoName). Requests for
// several items have an [*ItemsError] with one error for each. If the connection is lost, the
// error is a [*ConnError].
//
// # Security
//
// Connections are not encrypted, except with "pcps://" or PCP_SECURE_SOCKETS: a host on the way
// can read and change all data. With TLS, the certificate of pmcd must be valid for the
// host; see [Options]. A password is not sent in clear text by itself: see [ErrNoMethod].
package pmapi
