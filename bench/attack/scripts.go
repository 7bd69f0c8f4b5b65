package attack

import (
	"bytes"
	"slices"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Metrics are what the attacks fetch.
type Metrics struct {
	Own        pdu.PMID   // a metric of pmcd's own agent with an instance for each client
	OwnInDom   pdu.InDom  // its instance domain
	Cells      pdu.PMID   // a metric with very many instances
	CellsInDom pdu.InDom  // its instance domain
	Wide       pdu.PMID   // a metric with many instances
	WideLen    int        // bytes of its part of a reply
	Few        pdu.PMID   // a metric of the same agent with few instances
	FewLen     int        // bytes of its part of a reply
	All        []pdu.PMID // all metrics of an agent
	Piped      pdu.PMID   // a metric of an agent in another process
	Large      pdu.PMID   // a metric of such an agent with a value of 10 MiB, in some scenarios
}

// ExcludedInsts fetches a metric of pmcd's own again and again. The profile includes
// only instances that do not exist.
func (m *Metrics) ExcludedInsts() func(int) Script {
	s := Script{Once: slices.Concat(hello(), Insts(0, MaxInsts, m.OwnInDom)), Repeat: [][]byte{Fetch(0, MaxPMIDs, m.Own)}}
	return func(int) Script { return s }
}

// Profiles sends a large profile for each of n contexts, once.
func (m *Metrics) Profiles(n int) func(int) Script {
	s := Script{Once: hello(), Rounds: 1}
	for c := range n {
		s.Repeat = append(s.Repeat, InDoms(int32(c), MaxInDoms, c))
	}
	return func(int) Script { return s }
}

// Stream sends small profiles, which have no reply, without an end. Each write but the first
// begins and ends in the middle of one.
func (m *Metrics) Stream() func(int) Script {
	profiles := bytes.Repeat(all(0), 1024)
	half := len(all(0)) / 2
	s := Script{
		Once:   slices.Concat(hello(), profiles[:half]),
		Repeat: [][]byte{slices.Concat(profiles[half:], profiles[:half])},
	}
	return func(int) Script { return s }
}

// Unread sends requests with replies of nearly size bytes, and reads none of them.
func (m *Metrics) Unread(size, requests int) func(int) Script {
	s := Script{Once: slices.Concat(hello(), all(0)), Rounds: requests, Unread: true,
		Repeat: [][]byte{Fetch(0, m.wideFor(size), m.Wide)}}
	return func(int) Script { return s }
}

// Repeats sends one request of some 46 KB that repeats two metrics, with a reply of nearly 16 MiB,
// and reads nothing.
func (m *Metrics) Repeats() func(int) Script {
	s := Script{Once: slices.Concat(hello(), all(0), m.repeats()), Unread: true}
	return func(int) Script { return s }
}

// ReadRepeats is Repeats for clients that read, and send the request again and again.
func (m *Metrics) ReadRepeats() func(int) Script {
	s := Script{Once: slices.Concat(hello(), all(0)), Wait: true, Repeat: [][]byte{m.repeats()}}
	return func(int) Script { return s }
}

func (m *Metrics) repeats() []byte {
	const size = 16 << 20
	ids := []pdu.PMID{m.Wide, m.Few, m.Wide, m.Few, m.Wide, m.Few, m.Wide, m.Few, m.Wide}
	n := (size - 1024) * len(ids) / max(1, 5*m.WideLen+4*m.FewLen)
	return Fetch(0, max(1, min(MaxPMIDs, n)), ids...)
}

// Waiting fetches all metrics of an agent, with a profile that leaves all instances of them, and as
// long as all of n clients can have.
func (m *Metrics) Waiting(n int) func(int) Script {
	const allProfiles = 24 << 20 // that pmcd keeps
	s := m.AllMetrics()(0)
	s.Once = slices.Concat(hello(), InDoms(0, min(MaxInDoms, allProfiles/n/16-4), 0))
	return func(int) Script { return s }
}

// Distinct fetches Large. One client in two fetches it again and again, and the others do not read it.
func (m *Metrics) Distinct() func(int) Script {
	once, fetch := slices.Concat(hello(), all(0)), Fetch(0, 1, m.Large)
	scripts := []Script{
		{Once: once, Repeat: [][]byte{fetch}, Wait: true},
		{Once: slices.Concat(once, fetch), Unread: true},
	}
	return func(i int) Script { return scripts[i%len(scripts)] }
}

// wideFor returns how often a request names Wide if the reply has nearly size bytes.
func (m *Metrics) wideFor(size int) int {
	return max(1, min(MaxPMIDs, (size-1024)/max(1, m.WideLen)))
}

// RepeatedPMID fetches one metric with very many instances, as often as a request has
// room for. The profile includes one instance that does not exist.
func (m *Metrics) RepeatedPMID() func(int) Script {
	s := Script{Once: slices.Concat(hello(), Insts(0, 1, m.CellsInDom)), Repeat: [][]byte{Fetch(0, MaxPMIDs, m.Cells)}}
	return func(int) Script { return s }
}

// AllMetrics fetches all metrics of an agent, each time when the reply has arrived.
func (m *Metrics) AllMetrics() func(int) Script {
	s := Script{Once: slices.Concat(hello(), all(0)), Wait: true, Repeat: [][]byte{Fetch(0, len(m.All), m.All...)}}
	return func(int) Script { return s }
}

// Names looks up as many names as a request has room for, each time when the reply has
// arrived.
func (m *Metrics) Names() func(int) Script {
	names := slices.Repeat([]string{"kernel.percpu.interrupts.line24"}, 1600)
	s := Script{Once: hello(), Wait: true, Repeat: [][]byte{Encode(&pdu.PMNSNames{Names: names})}}
	return func(int) Script { return s }
}

// Small fetches one value of pmcd's own, each time when the reply has arrived.
func (m *Metrics) Small() func(int) Script {
	s := Script{Once: slices.Concat(hello(), all(0)), Wait: true, Repeat: [][]byte{Fetch(0, 1, m.Own)}}
	return func(int) Script { return s }
}

// Connecting is Small for all connections but the last n, which connect, send CREDS and
// disconnect after a moment.
func (m *Metrics) Connecting(conns, n int) func(int) Script {
	small := m.Small()
	return func(i int) Script {
		if i < conns-n {
			return small(i)
		}
		return Script{Once: hello(), Hold: 50 * time.Millisecond}
	}
}

// Alternating fetches in two contexts with large profiles in turn.
func (m *Metrics) Alternating() func(int) Script {
	s := Script{
		Once:   slices.Concat(hello(), InDoms(0, MaxInDoms, 0), InDoms(1, MaxInDoms, 1)),
		Repeat: [][]byte{Fetch(0, 1, m.Piped), Fetch(1, 1, m.Piped)},
	}
	return func(int) Script { return s }
}

// Dribble sends long requests in pieces of n bytes.
func (m *Metrics) Dribble(n int) func(int) Script {
	s := Script{Once: hello(), Repeat: slices.Collect(slices.Chunk(Fetch(0, MaxPMIDs, m.Own), n))}
	return func(int) Script { return s }
}

// Mixed does a little of each: a profile of many instance domains, one of many
// instances, a reply that is not read, half a request, and a usual client.
func (m *Metrics) Mixed(size int) func(int) Script {
	own := Fetch(0, 1, m.Own)
	half := Fetch(0, MaxPMIDs, m.Own)
	scripts := []Script{
		{Once: slices.Concat(hello(), InDoms(0, MaxInDoms, 0)), Repeat: [][]byte{own}},
		{Once: slices.Concat(hello(), Insts(0, MaxInsts, m.OwnInDom)), Repeat: [][]byte{own}},
		{Once: slices.Concat(hello(), all(0), Fetch(0, m.wideFor(size), m.Wide)), Unread: true},
		{Once: slices.Concat(hello(), half[:len(half)/2])},
		{Once: slices.Concat(hello(), none(0)), Repeat: [][]byte{own}},
	}
	return func(i int) Script { return scripts[i%len(scripts)] }
}

// InTLS is script in TLS connections.
func InTLS(script func(int) Script) func(int) Script {
	return func(i int) Script {
		s := script(i)
		s.Secure = true
		return s
	}
}

// Both is one for the first n connections, and other for the rest.
func Both(one func(int) Script, n int, other func(int) Script) func(int) Script {
	return func(i int) Script {
		if i < n {
			return one(i)
		}
		return other(i - n)
	}
}
