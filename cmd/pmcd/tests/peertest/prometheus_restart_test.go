package peertest

import (
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// slowRelay is a network with a pmcd far away. It returns an address.
func slowRelay(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				io.Copy(server, client)
				server.Close()
			}()
			go func() {
				defer client.Close()
				b := make([]byte, 64<<10)
				for {
					n, err := server.Read(b)
					time.Sleep(5 * time.Millisecond)
					if _, writeErr := client.Write(b[:n]); err != nil || writeErr != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// TestPrometheusRestart kills an agent between two scrapes. Each scrape has the metrics of all other
// agents, although there is not enough time to ask for all texts and labels again, and those of
// that agent when it is back.
func TestPrometheusRestart(t *testing.T) {
	p := otherPair(t, func() peer.Config { return peer.Config{} })
	for which, d := range map[string]*peer.Daemon{"C": p.C, "ours": p.Ours} {
		t.Run(which, func(t *testing.T) {
			names := strings.Fields("sample simple kernel.all")
			exporter := func(host string, args ...string) func() (others, killed []string) {
				url := startExporter(t, d, host, append(args, names...)...) + "/metrics"
				return func() (others, killed []string) {
					text, err := httpGet(t.Context(), url)
					if err != nil { // there was not enough time for anything
						t.Log(err)
						return nil, nil
					}
					others = []string{}
					for line := range strings.Lines(text) {
						if rest, ok := strings.CutPrefix(line, "# TYPE sample_"); ok {
							killed = append(killed, rest)
						} else if rest, ok := strings.CutPrefix(line, "# TYPE "); ok && !strings.HasPrefix(rest, "pmcd_") { // sample has names for some
							others = append(others, rest)
						}
					}
					return others, killed
				}
			}
			allOthers, all := exporter(d.Host(peer.TCP4))()
			scrape := exporter(slowRelay(t, d.Host(peer.TCP4)), "--timeout", "2s")
			var others, killed []string
			complete := func() bool { return slices.Equal(others, allOthers) && slices.Equal(killed, all) }
			if !peer.Until(testutil.Hangs, func() bool {
				others, killed = scrape()
				return complete()
			}) {
				t.Fatalf("%d and %d metrics, want %d and %d", len(others), len(killed), len(allOthers), len(all))
			}
			if err := syscall.Kill(pmdaOf(t, d, "pmdasample"), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			scrapes := 0
			if !peer.Until(testutil.Hangs, func() bool {
				others, killed = scrape()
				if others != nil && !slices.Equal(others, allOthers) {
					t.Fatalf("after the end of the agent: of others %q, want %q", others, allOthers)
				}
				if others != nil {
					scrapes++
				}
				return scrapes >= 5 && (which == "C" || complete()) // C pmcd may wait a minute before it starts an agent
			}) {
				t.Errorf("after %d scrapes: of the agent %q, want %q", scrapes, killed, all)
			}
		})
	}
}
