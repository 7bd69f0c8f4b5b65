package mmv

import (
	"context"
	"slices"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pdu"
)

// A fetching is the state of a fetch. There is one at a time, and the next one reuses the memory.
//
// The values of a fetch are found first. Then each file is opened, its values are read in
// the order in which they are in the file, and its header is compared with that of the
// file that was loaded. After that, the values are appended to the reply.
type fetching struct {
	sets   []set
	values []found
	order  []int32 // indexes of values, in the order in which they are read
	texts  []byte
}

// A set is a value set of the reply.
type set struct {
	id      pdu.PMID
	control *control
	n       int       // number of values
	code    pdu.Errno // if there are none
}

// A found is a value, and where it is.
type found struct {
	f          *file
	m          *metric
	off        uint32
	inst       int32
	data       uint64
	extra      int64
	start, end int32 // in texts, with a 0 byte
	code       pdu.Errno
}

// maxFound is the number of values after which those found so far are read, so that the
// memory for them is limited, and a fetch that is too large ends early.
const maxFound = 16384

// Fetch implements [agents.Agent].
func (a *agent) Fetch(ctx context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	// An unknown metric may be in a file that has changed.
	all := slices.ContainsFunc(r.PMIDs, func(id pdu.PMID) bool {
		if a.isControl(id) {
			return true
		}
		_, m := a.metric(id)
		return m == nil
	})
	if err := a.refresh(ctx, all); err != nil {
		return err
	}
	defer a.fetch.reset()
	for ids := r.PMIDs; len(ids) > 0; {
		n, err := a.fetchSome(ctx, ids, r.Profile, w)
		if err != nil {
			return err
		}
		if w.Err() != nil {
			return nil // too large; w has the error
		}
		ids = ids[n:]
	}
	if a.changed {
		w.SetTime(pdu.StateNamesChange, 0)
		a.changed = false
	}
	return nil
}

// reset drops pointers to files, and frees much memory.
func (f *fetching) reset() {
	if cap(f.values) > maxFound || cap(f.texts) > 1<<20 {
		*f = fetching{}
	}
	clear(f.values[:cap(f.values)])
	f.sets = f.sets[:0]
}

// fetchSome appends the value sets of the first n of ids.
func (a *agent) fetchSome(ctx context.Context, ids []pdu.PMID, p *pdu.Profile, w *pdu.ResultWriter) (n int, err error) {
	for try := 1; ; try++ {
		if n, err = a.collect(ctx, ids, p); err != nil {
			return 0, err
		}
		changed, err := a.readValues(ctx)
		if err != nil {
			return 0, err
		}
		if !changed || try == maxRetries {
			break
		}
		if again, err := a.reread(ctx); err != nil {
			return 0, err
		} else if !again {
			break
		}
	}
	values := a.fetch.values
	for i := range a.fetch.sets {
		if err := a.ended(ctx, i+1); err != nil {
			return 0, err
		}
		s := &a.fetch.sets[i]
		a.put(w, s, values[:s.n])
		values = values[s.n:]
	}
	return n, nil
}

// collect finds the values of the first n of ids.
func (a *agent) collect(ctx context.Context, ids []pdu.PMID, p *pdu.Profile) (n int, err error) {
	f := &a.fetch
	f.sets, f.values = f.sets[:0], f.values[:0]
	for n < len(ids) && len(f.values) < maxFound {
		id := ids[n]
		n++
		if err := a.ended(ctx, n); err != nil {
			return 0, err
		}
		before := len(f.values)
		s := set{id: id, control: a.control(id)}
		if s.control == nil {
			s.code = a.collectMetric(ctx, id, p)
		}
		s.n = len(f.values) - before
		f.sets = append(f.sets, s)
	}
	return n, ctx.Err()
}

// collectMetric finds the values of one metric. The code is for the case that there are none.
func (a *agent) collectMetric(ctx context.Context, id pdu.PMID, p *pdu.Profile) pdu.Errno {
	_, m := a.metric(id)
	if m == nil {
		return pdu.ErrnoPMID
	}
	if m.serial == 0 {
		return a.collectValue(id, m, pdu.NoInst)
	}
	n := serial(id.Cluster(), m.serial)
	d := a.indoms[n]
	if d == nil {
		return 0
	}
	selected := p.For(pdu.NewInDom(a.domain, n))
	code := pdu.Errno(0)
	add := func(i int) bool {
		if c := a.collectValue(id, m, d.insts[i].ID); c != 0 {
			code = c
		}
		return a.ended(ctx, i+1) == nil
	}
	if !selected.Exclude || len(selected.Insts) > len(d.insts) {
		all := selected.All()
		for i := range d.insts {
			if (all || selected.Includes(d.insts[i].ID)) && !add(i) {
				break
			}
		}
		return code
	}
	// It takes no longer if there are many others.
	positions := make([]int, 0, 16)
	for _, inst := range selected.Insts {
		if i, ok := d.position(inst); ok {
			positions = append(positions, i)
		}
	}
	slices.Sort(positions)
	for _, i := range slices.Compact(positions) {
		if !add(i) {
			break
		}
	}
	return code
}

// collectValue finds the value of an instance, in the first file that has it.
//
// C differs: if the last file with the cluster does not have the metric, the error is
// PM_ERR_PMID. A type other than that of the descriptor leads to a wrong value.
func (a *agent) collectValue(id pdu.PMID, first *metric, inst int32) pdu.Errno {
	code := pdu.ErrnoInst
	for _, f := range a.clusters[id.Cluster()] {
		m := f.item(id.Item())
		if m == nil {
			continue
		}
		off, ok := m.value(inst)
		switch {
		case m.typ == mmvformat.NoSupport:
			code = pdu.ErrnoAppVersion
		case !ok:
		case m.typ != first.typ:
			code = pdu.ErrnoType
		default:
			a.fetch.values = append(a.fetch.values, found{f: f, m: m, off: off, inst: inst})
			return 0
		}
	}
	return code
}
