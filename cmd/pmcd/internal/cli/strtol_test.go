package cli

import (
	"fmt"
	"testing"
)

func TestStrtol(t *testing.T) {
	tests := []struct {
		s    string
		base int
		n    int
		rest string
	}{
		{"", 10, 0, ""},
		{"12", 10, 12, ""},
		{" \t+12x", 10, 12, "x"},
		{"-12", 10, -12, ""},
		{"0x10", 10, 0, "x10"},
		{"010", 10, 10, ""},
		{"010", 0, 8, ""},
		{"08", 0, 0, "8"},
		{"0x1F,", 0, 31, ","},
		{"0Xfg", 0, 15, "g"},
		{"0x", 0, 0, "x"},
		{"0xg", 0, 0, "xg"},
		{"-0x10", 0, -16, ""},
		{"x", 10, 0, "x"},
		{" -", 10, 0, " -"},
		{"99999999999999999999", 10, 1<<31 - 1, ""},
		{"-99999999999", 0, -(1<<31 - 1), ""},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%q in base %d", tt.s, tt.base), func(t *testing.T) {
			if n, rest := strtol(tt.s, tt.base); n != tt.n || rest != tt.rest {
				t.Errorf("strtol(%q, %d) = %d, %q; want %d, %q", tt.s, tt.base, n, rest, tt.n, tt.rest)
			}
		})
	}
}
