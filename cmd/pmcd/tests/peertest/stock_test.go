package peertest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// stockConf is what the pmcd.conf of the distribution has: lines of agents, and
// what follows [access].
func stockConf() (agents []string, access string, err error) {
	text, err := os.ReadFile(peer.PmcdConf)
	if err != nil {
		return nil, "", err
	}
	all, access, _ := strings.Cut(string(text), "[access]\n")
	for line := range strings.Lines(all) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			agents = append(agents, line)
		}
	}
	if len(agents) < 5 {
		return nil, "", fmt.Errorf("%s has %d agents", peer.PmcdConf, len(agents))
	}
	return agents, access, nil
}

// TestStock serves the pmcd.conf of the distribution: all of its agents start,
// and their answers are the same.
func TestStock(t *testing.T) {
	peer.Require(t)
	agents, access, err := stockConf()
	if err != nil {
		t.Fatal(err)
	}
	p := otherPair(t, func() peer.Config { return peer.Config{Agents: agents, Access: access} })

	// Ours answers before all agents have finished their start.
	var o peer.Output
	well := peer.Until(peer.Hangs, func() bool {
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
