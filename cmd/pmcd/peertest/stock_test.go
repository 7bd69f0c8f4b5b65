package peertest

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// TestStock serves the pmcd.conf of the distribution: all of its agents come up,
// and what they have to say is the same.
func TestStock(t *testing.T) {
	const path = "/etc/pcp/pmcd/pmcd.conf"
	peer.Require(t)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, access, _ := strings.Cut(string(text), "[access]\n")
	var agents []string
	for line := range strings.Lines(all) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			agents = append(agents, line)
		}
	}
	if len(agents) < 5 {
		t.Fatalf("%s has %d agents", path, len(agents))
	}
	p := otherPair(t, func() peer.Config { return peer.Config{Agents: agents, Access: access} })

	// Ours answers before all agents have finished their start.
	var o peer.Output
	well := peer.Until(10*time.Second, func() bool {
		o, err = p.Ours.Run(t.Context(), peer.TCP4, words("pminfo -h {host} -f pmcd.agent.status"))
		return err == nil && strings.Count(o.Stdout, "] value 0\n") == len(agents)
	})
	if !well || strings.Count(o.Stdout, "] value ") != len(agents) {
		t.Errorf("not all %d agents are well: %v\n%s", len(agents), err, o)
	}
	for _, opts := range []string{"-d", "-l", "-f"} {
		t.Run(opts, func(t *testing.T) {
			c := allRoots(t, "pminfo -h {host} "+opts)
			p.Compare(t, peer.TCP4, c, pminfo())
		})
	}
	t.Run("processes", func(t *testing.T) {
		p.Compare(t, peer.TCP4, words("pminfo -h {host} -d proc hotproc"), pminfo())
	})
}
