package child

import (
	"os"
	"slices"
	"testing"
)

// A process of this program gets GOMAXPROCS unless it is set, and does not hand it on.
func TestOneProc(t *testing.T) {
	for _, tt := range []struct {
		set         string // in this process; "" is not set
		want, after string
	}{
		{"", "01", ""},
		{"1", "1", "1"},
		{"4", "4", "4"},
	} {
		t.Setenv(procsVar, tt.set) // restores it at the end
		if tt.set == "" {
			os.Unsetenv(procsVar)
		}
		env := OneProc()
		if !slices.Contains(env, procsVar+"="+tt.want) {
			t.Errorf("with %q the environment does not have %q: %q", tt.set, tt.want, env)
		}
		os.Setenv(procsVar, tt.want) // as in the process
		NotForChildren()
		if got := os.Getenv(procsVar); got != tt.after {
			t.Errorf("with %q children have %q, want %q", tt.set, got, tt.after)
		}
	}
}
