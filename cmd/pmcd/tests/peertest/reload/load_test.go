package reload

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// usage is what a process has.
type usage struct{ rss, threads, fds int }

func usageOf(t *testing.T, pid int) (u usage) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for l := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(l, ":")
		switch name {
		case "VmRSS":
			fmt.Sscan(value, &u.rss)
		case "Threads":
			fmt.Sscan(value, &u.threads)
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Fatal(err)
	}
	u.fds = len(fds)
	return u
}

// TestReloadsUnderLoad reloads our pmcd again and again, each time with another
// command for an agent, while clients ask without pause: none of them notices,
// and pmcd does not grow. PMCD_RELOADS is how many reloads there are.
func TestReloadsUnderLoad(t *testing.T) {
	peer.Require(t)
	reloads := 100
	if text := os.Getenv("PMCD_RELOADS"); text != "" {
		if _, err := fmt.Sscan(text, &reloads); err != nil {
			t.Fatal(err)
		}
	}
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	agents, err := peer.StandardAgents()
	if err != nil {
		t.Fatal(err)
	}
	d := peer.StartT(t, path, peer.Config{Agents: agents[:3]})
	var end atomic.Bool
	var requests atomic.Int64
	var clients sync.WaitGroup
	for i := range 4 {
		c := dial(t, d)
		clients.Go(func() {
			for !end.Load() {
				var got string
				switch i {
				case 0: // the one that is replaced
					if got, _ = c.fetch(simpleID); !strings.HasPrefix(got, "PM_") {
						got = "0"
					}
				case 1:
					got, _ = c.fetch(sampleID)
				case 2:
					got, _ = c.fetch(sampleID, sampleID)
					got, _, _ = strings.Cut(got, " ")
				case 3:
					if got = c.lookup("simple.numfetch"); got == "253.0.0" {
						got = "0"
					}
				}
				if strings.HasPrefix(got, "PM_") || got == "" {
					t.Errorf("client %d, after %d requests: %s", i, requests.Load(), got)
					return
				}
				requests.Add(1)
			}
		})
	}
	pmns, err := os.ReadFile(filepath.Join(d.Dir, "pmns"))
	if err != nil {
		t.Fatal(err)
	}
	var early usage
	began := time.Now()
	for i := range reloads {
		if t.Failed() {
			break
		}
		write(t, d, "conf", fmt.Sprintf("%s\n%s -l log%d\n%s\n", agents[0], agents[1], i%2, agents[2]))
		if i%10 == 0 { // it takes time to read
			write(t, d, "pmns", string(pmns))
		}
		hangup(t, d)
		if i == reloads/2 {
			early = usageOf(t, d.PID())
		}
	}
	took := time.Since(began)
	late := usageOf(t, d.PID())
	end.Store(true)
	clients.Wait()
	t.Logf("%d requests during %d reloads in %v; half way %+v, at the end %+v (kB)", requests.Load(), reloads, took, early, late)
	if late.fds > early.fds+5 || late.threads > early.threads+20 || late.rss > early.rss*5/4 {
		t.Errorf("it has grown: half way %+v, at the end %+v (kB)", early, late)
	}
}
