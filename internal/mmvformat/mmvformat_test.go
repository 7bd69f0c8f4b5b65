package mmvformat

import (
	"encoding/binary"
	"testing"
)

// The constants are the sizes of the structs in a file.
func TestSizes(t *testing.T) {
	for _, test := range []struct {
		v    any
		size int
	}{
		{Header{}, HeaderSize}, {Section{}, SectionSize}, {InDom{}, InDomSize},
		{InstanceV1{}, InstanceV1Size}, {InstanceV2{}, InstanceV2Size},
		{MetricV1{}, MetricV1Size}, {MetricV2{}, MetricV2Size},
		{Value{}, ValueSize}, {Text{}, StringSize}, {Label{}, LabelSize},
	} {
		if got := binary.Size(test.v); got != test.size {
			t.Errorf("%T has %d bytes, want %d", test.v, got, test.size)
		}
	}
}
