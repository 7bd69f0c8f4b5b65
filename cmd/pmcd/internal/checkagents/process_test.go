package checkagents

import "testing"

// The process must start nothing if the kernel says that its caller has other rights.
func TestSecure(t *testing.T) {
	const pageSize, atSecure = 6, 23
	for _, tt := range []struct {
		auxv [][2]uintptr
		want bool
	}{
		{nil, false},
		{[][2]uintptr{{pageSize, 4096}, {atSecure, 0}}, false},
		{[][2]uintptr{{pageSize, 4096}, {atSecure, 1}}, true},
	} {
		if got := secure(tt.auxv); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.auxv, got, tt.want)
		}
	}
}
