package session

import (
	"container/list"
	"sync"

	"github.com/gopcp/pmcd/pdu"
)

// maxDecodedTotal is how much large profiles may take that are decoded, in bytes of
// their PDUs. They may take decodedFactor times as much.
const maxDecodedTotal = 1 << 20

// decodedProfiles are the large profiles of all clients that were used last, decoded. A
// client that uses one profile again and again finds it here.
type decodedProfiles struct {
	mu    sync.Mutex // guards the following
	byKey map[*profile]*list.Element
	order list.List // of decodedProfile; the one used last is at the front
	bytes int
}

type decodedProfile struct {
	key     *profile
	decoded *pdu.Profile
}

// get returns p, decoded.
func (d *decodedProfiles) get(p *profile) *pdu.Profile {
	if p.decoded != nil {
		return p.decoded
	}
	d.mu.Lock()
	if e := d.byKey[p]; e != nil {
		d.order.MoveToFront(e)
		d.mu.Unlock()
		return e.Value.(*decodedProfile).decoded
	}
	d.mu.Unlock()
	q := new(pdu.Profile)
	if _, err := pdu.ParseInto(p.wire, q); err != nil {
		panic(err) // it was parsed when it came
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.byKey == nil {
		d.byKey = make(map[*profile]*list.Element)
	}
	d.byKey[p] = d.order.PushFront(&decodedProfile{p, q}) // only one goroutine uses p
	for d.bytes += len(p.wire); d.bytes > maxDecodedTotal; {
		d.remove(d.order.Back())
	}
	return q
}

// forget forgets p, which is not used any more; nil is no profile.
func (d *decodedProfiles) forget(p *profile) {
	if p == nil || p.wire == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.byKey[p]; e != nil {
		d.remove(e)
	}
}

// remove removes e. The caller holds mu.
func (d *decodedProfiles) remove(e *list.Element) {
	p := d.order.Remove(e).(*decodedProfile).key
	delete(d.byKey, p)
	d.bytes -= len(p.wire)
}
