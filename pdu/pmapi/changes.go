package pmapi

import (
	"sync/atomic"

	"github.com/gopcp/pmcd/pdu"
)

// A changeLog has the state changes that pmcd has sent to a client, and its new connections. Each
// reader has a position of its own in it, so that none takes them from another.
type changeLog struct {
	end         atomic.Uint64 // the position behind all entries; written while the Client is acquired
	last        [32]uint64    // the position behind the last entry with a bit, by bit
	reconnected uint64        // the position behind the last new connection
}

// add adds state changes, bits such as pdu.StateNamesChange.
func (l *changeLog) add(changes int32) {
	end := l.end.Add(1)
	for bit := range l.last {
		if uint32(changes)>>bit&1 != 0 {
			l.last[bit] = end
		}
	}
}

// addConnection adds a new connection.
func (l *changeLog) addConnection() { l.reconnected = l.end.Add(1) }

// next returns what was added since the position at, and moves that behind it.
func (l *changeLog) next(at *uint64) (changes int32, reconnected bool) {
	for bit, last := range l.last {
		if last > *at {
			changes |= int32(uint32(1) << bit)
		}
	}
	reconnected = l.reconnected > *at
	*at = l.end.Load()
	return changes, reconnected
}

// Changes returns what pmcd says has changed between the last fetch of g and the one before,
// and whether there was a new connection: see [Result]. A Group looks up its names and
// instances again by itself. A program that has taken the names from the name space can do
// that again.
func (g *Group) Changes() (changes int32, reconnected bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.result.Changes, g.result.Reconnected
}

// newCounters are the state changes after which counters may have begun anew.
const newCounters = pdu.StateAddAgent | pdu.StateRestartAgent | pdu.StateDropAgent

// forget drops what was known before a state change: names and, if agents have changed,
// counters. The values of the result that said so are used further: its PMIDs were good when
// pmcd made it.
func (g *Group) forget(changes int32, reconnected bool) {
	agents := reconnected || changes&newCounters != 0
	if !agents && changes&^pdu.StateHostname&^pdu.StateLabelChange == 0 {
		return
	}
	clear(g.domains)
	for _, i := range g.items {
		if agents {
			clear(i.before)
		}
		i.stale()
	}
}
