package peertest

import (
	"encoding/binary"
	"regexp"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

// since7 are the metrics of pmdalinux whose descriptors are others in 7.2.1,
// which ours has, than in 6.0.3. Why is in the commit of PCP, in short.
var since7 = map[pdu.PMID]struct {
	was, is pdu.Desc // what has changed, else 0
	why     string
}{
	pdu.NewPMID(60, 54, 6):   {pdu.Desc{ValueType: pdu.MetricU32}, pdu.Desc{ValueType: pdu.MetricU64}, "disk.dm.read_bytes wraps at 4 TiB"},
	pdu.NewPMID(60, 54, 7):   {pdu.Desc{ValueType: pdu.MetricU32}, pdu.Desc{ValueType: pdu.MetricU64}, "disk.dm.write_bytes wraps"},
	pdu.NewPMID(60, 54, 8):   {pdu.Desc{ValueType: pdu.MetricU32}, pdu.Desc{ValueType: pdu.MetricU64}, "disk.dm.total_bytes wraps"},
	pdu.NewPMID(60, 59, 6):   {pdu.Desc{ValueType: pdu.MetricU32}, pdu.Desc{ValueType: pdu.MetricU64}, "disk.md.read_bytes wraps"},
	pdu.NewPMID(60, 59, 7):   {pdu.Desc{ValueType: pdu.MetricU32}, pdu.Desc{ValueType: pdu.MetricU64}, "disk.md.write_bytes wraps"},
	pdu.NewPMID(60, 59, 8):   {pdu.Desc{ValueType: pdu.MetricU32}, pdu.Desc{ValueType: pdu.MetricU64}, "disk.md.total_bytes wraps"},
	pdu.NewPMID(60, 28, 111): {pdu.Desc{Sem: pdu.SemCounter}, pdu.Desc{Sem: pdu.SemInstant}, "mem.vmstat.nr_free_cma goes up and down"},
}

// newSince7 are the metrics of domain 60 that pmdalinux of PCP 6.0 does not have, as
// ranges of items. Those of a cluster from 94 on are all new. agents/builtin/linux
// tests their values.
var newSince7 = map[int][2]int{
	1:  {64, 76},
	5:  {12, 13},
	14: {94, 96},
	28: {179, 189},
	35: {2, 11},
	36: {42, 48},
	53: {205, 240},
	55: {10, 10},
	57: {12, 17},
	0:  {105, 106},
}

func isNewSince7(id pdu.PMID) bool {
	if id.Domain() != peer.DomainLinux {
		return false
	}
	items, ok := newSince7[id.Cluster()]
	return id.Cluster() >= 94 || ok && id.Item() >= items[0] && id.Item() <= items[1]
}

// scsiSince7 are names of SCSI devices: with a blank, all of one address had the
// same short name.
var scsiSince7 = regexp.MustCompile(`^(scsi\d+:\d+:\d+:\d+)_(\S+)$`)

// asBefore7 is our agent linux as it would be if it followed 6.0.3, to be compared
// with the pmdalinux that is installed. It fails the test where ours does not
// follow 7.2.1.
type asBefore7 struct {
	transport.Transport
	t *testing.T
}

func (a asBefore7) Send(c *transport.Call) (transport.Reply, error) {
	r, err := a.Transport.Send(c)
	return replyBefore7{r, a.t}, err
}

type replyBefore7 struct {
	transport.Reply
	t *testing.T
}

func (a replyBefore7) Recv(dst []byte) ([]byte, error) {
	b, err := a.Reply.Recv(dst)
	if err != nil {
		return b, err
	}
	from, m, err := pdu.Parse(b)
	if err != nil {
		return b, err
	}
	switch m := m.(type) {
	case *pdu.Desc:
		if s, ok := since7[m.PMID]; ok {
			if s.is.ValueType != 0 && m.ValueType != s.is.ValueType || s.is.Sem != 0 && m.Sem != s.is.Sem {
				a.t.Errorf("%v is not as in 7.2.1: %+v", m.PMID, m)
			}
			if s.is.ValueType != 0 {
				m.ValueType = s.was.ValueType
			}
			if s.is.Sem != 0 {
				m.Sem = s.was.Sem
			}
		}
	case *pdu.Result:
		for i := range m.Sets {
			if set := &m.Sets[i]; since7[set.PMID].is.ValueType == pdu.MetricU64 && len(set.Values) > 0 {
				a.shorten(set)
			}
		}
	case *pdu.Instance:
		if m.InDom != pdu.NewInDom(60, 11) {
			return b, nil
		}
		for i := range m.Insts {
			if parts := scsiSince7.FindStringSubmatch(m.Insts[i].Name); parts != nil {
				m.Insts[i].Name = parts[1] + " " + parts[2]
			} else {
				a.t.Errorf("SCSI device %q is not named as in 7.2.1", m.Insts[i].Name)
			}
		}
	default:
		return b, nil
	}
	return pdu.Append(nil, from, m)
}

// shorten makes values of 64 bits such of 32.
func (a replyBefore7) shorten(set *pdu.ValueSet) {
	set.Format = pdu.FormatInsitu
	for i := range set.Values {
		v := &set.Values[i]
		if v.Type != pdu.MetricU64 || len(v.Block) != 8 {
			a.t.Errorf("%v has a value that is not as in 7.2.1: %+v", set.PMID, v)
			continue
		}
		*v = pdu.Value{Inst: v.Inst, Word: uint32(binary.BigEndian.Uint64(v.Block))}
	}
}
