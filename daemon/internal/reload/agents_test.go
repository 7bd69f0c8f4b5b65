package reload

import (
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pmcdconf"
)

// An agent waits for the end of the agent that had its domain or its address, and for no
// other.
func TestConflicts(t *testing.T) {
	for _, tt := range []struct {
		name, old, new string
		want           bool
	}{
		{"another command", "t 240 pipe binary t", "t 240 pipe binary t -x", true},
		{"the same port", "t 240 socket inet 2001 t", "u 241 socket inet 2001 u", true},
		{"the same port of another family", "t 240 socket ipv6 2001 t", "u 241 socket inet 2001 u", false},
		{"another port", "t 240 socket inet 2001 t", "u 241 socket inet 2002 u", false},
		{"the same path", "t 240 socket unix /p t", "u 241 socket unix /p u", true},
		{"another path", "t 240 socket unix /p t", "u 241 socket unix /q u", false},
		{"another agent", "t 240 pipe binary t", "u 241 pipe binary u", false},
	} {
		var agents []pmcdconf.Agent
		for _, line := range []string{tt.old, tt.new} {
			conf, err := pmcdconf.Parse("conf", strings.NewReader(line+"\n"), pmcdconf.Options{})
			if err != nil {
				t.Fatal(err)
			}
			agents = append(agents, conf.Agents...)
		}
		if got := conflicts(&agents[0], &agents[1]); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
