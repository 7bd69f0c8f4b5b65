package mmvformat

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
)

// The files of other writers have the layout that the structs say: sections with their counts
// and sizes follow each other and fill the file. The programs that wrote them are beside
// them: writers.c, writers.py and writers.go.
func TestOtherWriters(t *testing.T) {
	for _, test := range []struct {
		file           string
		version, flags int
		cluster        int32
		metrics        int32
		name           string // of the first metric
	}{
		{"c_v1.mmv", Version1, 0, 21, 11, "s32"},
		{"c_v2.mmv", Version2, FlagNoPrefix | FlagSentinel, 22, 3, "double"},
		{"c_v3.mmv", Version3, 0, 23, 3, "u64"},
		{"python_v1.mmv", Version1, FlagSentinel, 31, 3, "insts.u64"},
		{"speed_v1.mmv", Version1, 0, 3354, 10, "texts"},
		{"speed_v2.mmv", Version2, 0, 3195, 10, "vector"},
	} {
		t.Run(test.file, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join("testdata", test.file))
			if err != nil {
				t.Fatal(err)
			}
			get := func(at uint64, v any) {
				t.Helper()
				if _, err := binary.Decode(b[at:], binary.LittleEndian, v); err != nil {
					t.Fatal(err)
				}
			}
			var h Header
			get(0, &h)
			if string(h.Magic[:]) != Magic || h.Version != int32(test.version) || h.Flags != uint32(test.flags) || h.Cluster != test.cluster ||
				h.Generation1 == 0 || h.Generation1 != h.Generation2 || h.Process == 0 {
				t.Errorf("header %+v", h)
			}
			sizes := map[SectionType]uint64{InDoms: InDomSize, Instances: InstanceV2Size, Metrics: MetricV2Size, Values: ValueSize, Strings: StringSize, Labels: LabelSize}
			if test.version == Version1 {
				sizes[Instances], sizes[Metrics] = InstanceV1Size, MetricV1Size
			}
			end := uint64(HeaderSize + h.Sections*SectionSize)
			for i := range uint64(h.Sections) {
				var s Section
				get(HeaderSize+i*SectionSize, &s)
				if s.Offset != end {
					t.Errorf("section %d begins at %d, want %d", s.Type, s.Offset, end)
				}
				end = s.Offset + uint64(s.Count)*sizes[s.Type]
				if s.Type != Metrics {
					continue
				}
				name := b[s.Offset:]
				if test.version != Version1 {
					var m MetricV2
					get(s.Offset, &m)
					name = b[m.Name:]
				}
				if first, _, _ := bytes.Cut(name, []byte{0}); s.Count != test.metrics || string(first) != test.name {
					t.Errorf("%d metrics, the first is %q; want %d, %q", s.Count, first, test.metrics, test.name)
				}
			}
			if end != uint64(len(b)) {
				t.Errorf("the sections end at %d in a file of %d bytes", end, len(b))
			}
		})
	}
}
