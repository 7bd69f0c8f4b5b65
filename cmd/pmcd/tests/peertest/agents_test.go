package peertest

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// otherPair starts a pair of daemons with a configuration of their own; conf is
// called for each of them, because two agents cannot share a port.
func otherPair(t *testing.T, conf func() peer.Config) *peer.Pair {
	t.Helper()
	peer.Require(t)
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	return &peer.Pair{C: peer.StartT(t, peer.CPmcd, conf()), Ours: peer.StartT(t, path, conf())}
}

// TestSocketAgents has agents that the daemon starts, but talks to by sockets.
func TestSocketAgents(t *testing.T) {
	port := func() string {
		n, err := peer.FreePort()
		if err != nil {
			t.Fatal(err)
		}
		return strconv.Itoa(n)
	}
	simple, err := peer.SimplePMDA()
	if err != nil {
		t.Fatal(err)
	}
	p := otherPair(t, func() peer.Config {
		inet := port()
		agents := []string{
			"pmcd 2 dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so",
			fmt.Sprintf("simple 253 socket inet %s %s -d 253 -i %s", inet, simple, inet),
			"sample 29 socket unix {dir}/sample.socket /var/lib/pcp/pmdas/sample/pmdasample -d 29 -u {dir}/sample.socket",
		}
		if peer.IPv6() == nil {
			inet6 := port()
			agents = append(agents, fmt.Sprintf("linux 60 socket ipv6 %s /var/lib/pcp/pmdas/linux/pmdalinux -6 %s", inet6, inet6))
		}
		return peer.Config{Agents: agents}
	})
	for _, line := range []string{
		"pminfo -h {host} -dmtTl simple sample.bin sample.secret hinv pmcd.agent",
		"pminfo -h {host} -f simple sample.bin sample.string hinv pmcd.agent",
		"pminfo -h {host} -l -f pmcd.agent.type",
	} {
		t.Run(line, func(t *testing.T) {
			for _, tr := range peer.Transports {
				t.Run(tr.String(), func(t *testing.T) {
					usable(t, tr)
					p.Compare(t, tr, words(line), pminfo())
				})
			}
		})
	}
	t.Run("store", func(t *testing.T) {
		p.Compare(t, peer.TCP4, words("pmstore -h {host} sample.write_me 7"), peer.Comparison{})
	})
}

// TestAgentsThatDoNotStart looks at agents that fail in all ways: clients see their
// domains empty and their status, and no other agent is affected.
func TestAgentsThatDoNotStart(t *testing.T) {
	p := otherPair(t, func() peer.Config {
		return peer.Config{
			Agents: []string{
				"pmcd 2 dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so",
				"simple 253 pipe binary /no/such/program",
				"sample 29 pipe binary /var/lib/pcp/pmdas/sample/pmdasample -d 29",
				"linux 60 pipe binary /bin/false",
				"proc 3 pipe binary /bin/cat", // says nothing
			},
			Args: []string{"-q", "10"},
		}
	})
	for _, line := range []string{
		"pminfo -h {host} -f sample.long simple.color hinv.ncpu proc.nprocs",
		"pminfo -h {host} -d simple hinv proc.nprocs",
		"pminfo -h {host} -m simple hinv",
		"pminfo -h {host} -I 253.0 60.0 3.9",
		"pmprobe -h {host} -v simple hinv sample.bin",
	} {
		t.Run(line, func(t *testing.T) { p.Compare(t, peer.TCP4, words(line), pminfo()) })
	}
	t.Run("status", func(t *testing.T) {
		p.Compare(t, peer.TCP4, words("pminfo -h {host} -f pmcd.agent"), pminfo())
	})
}

// TestContainerWithRoot has pmdaroot, which agents ask about containers.
func TestContainerWithRoot(t *testing.T) {
	p := otherPair(t, func() peer.Config {
		return peer.Config{Agents: []string{
			"root 1 pipe binary /var/lib/pcp/pmdas/root/pmdaroot",
			"pmcd 2 dso pmcd_init /var/lib/pcp/pmdas/pmcd/pmda_pmcd.so",
			"linux 60 pipe binary /var/lib/pcp/pmdas/linux/pmdalinux",
			"sample 29 pipe binary /var/lib/pcp/pmdas/sample/pmdasample -d 29",
		}}
	})
	for _, line := range []string{
		"pminfo -h {host} -f containers hinv.ncpu",
		"pminfo -h {host}?container=nobody -f hinv.ncpu sample.long.one network.interface.mtu pmcd.hostname pmcd.client.container containers",
		"pminfo -h {host}?container=nobody -l hinv.ncpu",
		"pminfo -h {host} --container=nobody -d hinv.ncpu",
	} {
		t.Run(line, func(t *testing.T) {
			for _, tr := range []peer.Transport{peer.TCP4, peer.Unix} {
				t.Run(tr.String(), func(t *testing.T) { p.Compare(t, tr, words(line), pminfo()) })
			}
		})
	}
}
