package debugopt

import (
	"slices"
	"testing"
)

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		opts string
		want []string // nil is an error
	}{
		{"", []string{}},
		{"pdu", []string{"pdu"}},
		{"PDU,Auth,pdu", []string{"auth", "pdu"}},
		{"libpmda, attr", []string{"attr", "libpmda"}},
		{"all", slices.Sorted(slices.Values(names))},
		{"misc,qed,getopt", []string{"getopt", "misc", "qed"}}, // new in 7.2
		{"nosuch", nil},
		{"pdu,-attr", nil},
	} {
		got, err := Parse(tt.opts)
		if (err != nil) != (tt.want == nil) || !slices.Equal(got, tt.want) {
			t.Errorf("%q: got %q, %v; want %q", tt.opts, got, err, tt.want)
		}
	}
}
