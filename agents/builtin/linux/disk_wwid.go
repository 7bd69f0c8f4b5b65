package linux

import (
	"bytes"
	"context"

	"github.com/gopcp/pmcd/agents/pmda"
)

// wwid returns the world wide name of a disk, or "unknown". The kind of the name is
// a word in /sys and a digit in SCSI. The result is valid until the next call.
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

// wwids is the instance domain of world wide names. Each has the disks that are
// paths to it.
type wwids struct {
	devs      *disks
	instances *instances[paths]
}

// paths are the disks with the same name, in the order of their ids.
type paths struct {
	list  []*disk
	names []byte // of the disks, separated by blanks
}

func newWWIDs(devs *disks) *wwids {
	return &wwids{devs: devs, instances: newInstances[paths](devs.h, indomWWID)}
}

// read reads the names. The cache compares names up to the first blank, which are the same for all
// SATA disks without a WWN: t10.ATA     QEMU HARDDISK   QM00001.
//
// C differs: names have blanks, and only the first of these disks is an instance.
func (w *wwids) read(ctx context.Context, r *pmda.Request) error {
	err := r.ReadSource(ctx, w.devs.source)
	w.instances.begin()
	defer w.instances.end()
	w.devs.instances.Each(func(_ int32, _ string, data any) bool {
		if w.devs.h.ended() != nil {
			return false
		}
		k := data.(*disk)
		name := w.devs.wwid(k)
		if bytes.HasPrefix(name, unknown) {
			return true
		}
		if bytes.IndexByte(name, ' ') >= 0 {
			name = bytes.ReplaceAll(name, []byte{' '}, []byte{'_'})
		}
		p := w.instances.add(name)
		if p != nil {
			p.list, p.names = p.list[:0], p.names[:0]
		} else if p = w.instances.get(string(name)); p != nil {
			p.names = append(p.names, ' ')
		} else {
			return true // not a valid name
		}
		p.list = append(p.list, k)
		p.names = append(p.names, k.kernel...)
		return true
	})
	return err
}

// sum returns a FetchFunc for the sum over all paths.
func (w *wwids) sum(f ioFunc) pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, p *paths) {
		var sum uint64
		for _, k := range p.list {
			n, ok := f(k)
			if !ok {
				return
			}
			sum += n
		}
		v.SetUint(sum)
	})
}

// last returns a FetchFunc for the number of the last path, which is the same for
// all paths.
//
// C differs: it has the sum of the capacities if other capacities are in the same
// fetch, else no value. For discard_bytes it has the value of the last path.
func (w *wwids) last(f ioFunc) pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, p *paths) {
		if n, ok := f(p.list[len(p.list)-1]); ok {
			v.SetUint(n)
		}
	})
}

func (w *wwids) metrics() []pmda.Metric {
	indom := &pmda.InDom{Serial: indomWWID, Insts: w.instances, Source: &pmda.Source{Read: w.read}}
	names := pmda.FromData(func(v *pmda.Value, p *paths) { v.SetBytes(p.names) })
	scheduler := pmda.FromData(func(v *pmda.Value, p *paths) { v.SetBytes(w.devs.scheduler(p.list[len(p.list)-1])) })
	ms := ioTable(pmda.Metric{InDom: indom}, ofPaths, 92, "disk.wwid.", w.sum)
	ms = append(ms, table(pmda.Metric{InDom: indom}, []row{
		{92, 3, "disk.wwid.scsi_paths", str, discrete, none, names},
		{92, 59, "disk.wwid.scheduler", str, discrete, none, scheduler},
	})...)
	return append(ms, table(pmda.Metric{InDom: indom, Source: &pmda.Source{Read: w.devs.readSizes}}, []row{
		{92, 87, "disk.wwid.capacity", u64, discrete, kbyte, w.last(capacity)},
	})...)
}
