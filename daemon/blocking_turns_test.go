package daemon

import (
	"fmt"
	"testing"

	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// Clients that send many requests each, one client after the other, so that each gets
// into blocking-read mode, have their own answers in order, while agents come and go.
func TestTurnsInBlockingMode(t *testing.T) {
	t.Run("without descriptors", func(t *testing.T) { testTurns(t, nil) })
	t.Run("where descriptors may be queued", func(t *testing.T) { testTurns(t, withRights(t)) })
}

func testTurns(t *testing.T, config func(*Config)) {
	const clients, rounds, burst = 6, 12, 40
	dying := func(c wire.Conn) {
		n := 0
		script(242, pdu.TypePMNSNames, nil)(limitedConn{c, &n})
	}
	r := newHarness(t, config, map[int]func(wire.Conn){242: dying})
	r.awaitStarts()
	var cs []*client
	for i := range clients {
		c := r.dialTo([]string{"tcp", "unix"}[i%2], []string{r.tcp, r.unix}[i%2], 0)
		c.send(&pdu.Profile{})
		cs = append(cs, c)
	}
	entered, died := 0, 0
	for range rounds {
		for i, c := range cs {
			for n := range burst {
				switch (n + i) % 3 {
				case 0:
					if sets, _ := c.fetch(id(241, 1), id(241, 2)); showSets(sets) != "241.0.1=241 241.0.2=s241" {
						t.Fatalf("fetch of one agent: %s", showSets(sets))
					}
				case 1:
					c.ask()
				case 2:
					sets, _ := c.fetch(id(242, i), id(240, 1), id(242, n), id(241, 1))
					one := fmt.Sprintf("242.0.%d=1 240.0.1=240 242.0.%d=1 241.0.1=241", i, n)
					got := showSets(sets)
					if sets[0].Err != 0 && sets[2].Err == sets[0].Err {
						died++
						sets[0], sets[2] = sets[1], sets[3]
						if got, one = showSets(sets[:3:3]), "240.0.1=240 240.0.1=240 241.0.1=241"; r.routes.Load().Agent(242).AwaitConn() == nil {
							r.Reload()
						}
					}
					if got != one {
						t.Fatalf("fetch of three agents: got %s, want %s", got, one)
					}
				}
			}
			if r.acceptor.Load().Stats().Exclusive {
				entered++
			}
		}
	}
	t.Logf("%d of %d series ended in blocking-read mode, %d fetches without the agent that dies", entered, rounds*clients, died)
	if entered == 0 || died == 0 {
		t.Error("no series ended in blocking-read mode, or the agent did not die")
	}
}

// A limitedConn is closed after 50 writes.
type limitedConn struct {
	wire.Conn
	writes *int
}

func (c limitedConn) Write(b []byte) (int, error) {
	if *c.writes++; *c.writes > 50 {
		c.Conn.Close()
	}
	return c.Conn.Write(b)
}
