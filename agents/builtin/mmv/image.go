package mmv

import (
	"bytes"

	"github.com/gopcp/pmcd/internal/mmvformat"
)

// An image is the content of a file. Its methods check offsets: these are file bytes.
type image []byte

// at returns n bytes at an offset, or nil if they are not in the file.
func (b image) at(off, n uint64) []byte {
	if off > uint64(len(b)) || n > uint64(len(b))-off {
		return nil
	}
	return b[off : off+n]
}

// text returns a string. ok is false if its 256 bytes are not in the file. ended is
// false if there is no 0 byte: then it is 255 bytes.
func (b image) text(off uint64) (s []byte, ended, ok bool) {
	s = b.at(off, mmvformat.StringSize)
	if s == nil {
		return nil, false, false
	}
	s, ended = cutText(s)
	return s, ended, true
}

// cutText returns the bytes up to the first 0 byte, or all but the last.
func cutText(s []byte) (_ []byte, ended bool) {
	if i := bytes.IndexByte(s, 0); i >= 0 {
		return s[:i], true
	}
	return s[:len(s)-1], false
}

func section(b []byte) (s mmvformat.Section) {
	s.Type, s.Count = mmvformat.SectionType(native.Uint32(b)), int32(native.Uint32(b[4:]))
	s.Offset = native.Uint64(b[8:])
	return s
}

func indom(b []byte) (d mmvformat.InDom) {
	d.Serial, d.Count, d.Instances = native.Uint32(b), native.Uint32(b[4:]), native.Uint64(b[8:])
	d.ShortText, d.HelpText = native.Uint64(b[16:]), native.Uint64(b[24:])
	return d
}

// instanceID returns the id of an instance of any version.
func instanceID(b []byte) int32 { return int32(native.Uint32(b[12:])) }

// metricFields decodes what follows the name of a metric.
func metricFields(b []byte) (m mmvformat.MetricFields) {
	m.Item, m.Type = native.Uint32(b), mmvformat.Type(native.Uint32(b[4:]))
	m.Sem, m.Units, m.InDom = int32(native.Uint32(b[8:])), native.Uint32(b[12:]), int32(native.Uint32(b[16:]))
	m.ShortText, m.HelpText = native.Uint64(b[24:]), native.Uint64(b[32:])
	return m
}

func value(b []byte) (v mmvformat.Value) {
	copy(v.Data[:], b)
	v.Extra, v.Metric, v.Instance = int64(native.Uint64(b[8:])), native.Uint64(b[16:]), native.Uint64(b[24:])
	return v
}
