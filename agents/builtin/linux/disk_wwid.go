package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/pmda"
)

// wwid returns the world wide name of a disk. /sys has the kind of it as a word,
// SCSI as a digit. It is valid until the next call.
func (d *diskFiles) wwid(k *disk) []byte {
	b := d.h.blockDevice(k).Value("device/wwid")
	if len(b) == 0 {
		b = d.h.blockDevice(k).Value("wwid")
	}
	if len(b) == 0 {
		return unknown
	}
	for _, kind := range wwidKinds {
		if rest, ok := bytes.CutPrefix(b, kind.word); ok {
			d.wwidText = append(append(d.wwidText[:0], kind.digit), rest...)
			return d.wwidText
		}
	}
	return b
}

var wwidKinds = []struct {
	word  []byte
	digit byte
}{{[]byte("t10."), '1'}, {[]byte("eui."), '2'}, {[]byte("naa."), '3'}}

// wwids are the world wide names of disks, each with the disks that are paths to
// it.
type wwids struct {
	devs  *disks
	insts *instances[paths]
}

// paths are the disks with one name, by their ids.
type paths struct {
	list  []*disk
	names []byte // of them, with blanks between
}

func newWWIDs(devs *disks) *wwids {
	return &wwids{devs: devs, insts: newInstances[paths](devs.h, indomWWID)}
}

func (w *wwids) read(ctx context.Context, r *pmda.Request) error {
	err := r.Read(ctx, w.devs.source)
	w.insts.begin()
	defer w.insts.end()
	w.devs.insts.Each(func(_ int32, _ string, data any) bool {
		k := data.(*disk)
		name := w.devs.wwid(k)
		if bytes.HasPrefix(name, unknown) {
			return true
		}
		p := w.insts.add(name)
		if p != nil {
			p.list, p.names = p.list[:0], p.names[:0]
		} else if i := w.insts.byName[string(name)]; i != nil {
			p = &i.data
			p.names = append(p.names, ' ')
		} else {
			return true // a name that is no good
		}
		p.list = append(p.list, k)
		p.names = append(p.names, k.kernel...)
		return true
	})
	return err
}

// sum is the sum over all paths.
func (w *wwids) sum(f ioFunc) pmda.FetchFunc {
	return pmda.Of(func(v *pmda.Value, p *paths) {
		var sum uint64
		for _, k := range p.list {
			n, ok := f(k)
			if !ok {
				return
			}
			sum += n
		}
		v.Uint(sum)
	})
}

// last is the number of the last path, which is that of all.
//
// C differs: it has the sum of capacities, if others are asked for in the same
// fetch, and none if not. Of discard_bytes it has that of the last path.
func (w *wwids) last(f ioFunc) pmda.FetchFunc {
	return pmda.Of(func(v *pmda.Value, p *paths) {
		if n, ok := f(p.list[len(p.list)-1]); ok {
			v.Uint(n)
		}
	})
}

func (w *wwids) metrics() []pmda.Metric {
	indom := &pmda.InDom{Serial: indomWWID, Insts: w.insts, Source: &pmda.Source{Read: w.read}}
	names := pmda.Of(func(v *pmda.Value, p *paths) { v.Bytes(p.names) })
	scheduler := pmda.Of(func(v *pmda.Value, p *paths) { v.Bytes(w.devs.scheduler(p.list[len(p.list)-1])) })
	ms := ioTable(pmda.Metric{InDom: indom}, ofPaths, 92, "disk.wwid.", w.sum)
	ms = append(ms, pmda.Table(pmda.Metric{InDom: indom}, []row{
		{92, 3, "disk.wwid.scsi_paths", str, discrete, none, names},
		{92, 59, "disk.wwid.scheduler", str, discrete, none, scheduler},
	})...)
	return append(ms, pmda.Table(pmda.Metric{InDom: indom, Source: &pmda.Source{Read: w.devs.readSizes}}, []row{
		{92, 87, "disk.wwid.capacity", u64, discrete, kbyte, w.last(capacity)},
	})...)
}
