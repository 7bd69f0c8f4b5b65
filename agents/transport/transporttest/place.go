package transporttest

import (
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/agents/transport"
)

// A Place is a transport.Place that can always be entered.
type Place struct {
	entered, overdue atomic.Bool
	left             atomic.Int32
}

func (p *Place) Enter()                { p.entered.Store(true); p.overdue.Store(false) }
func (p *Place) EnterFirst()           { p.Enter() }
func (p *Place) EnterAgain()           { p.Enter() }
func (p *Place) Overdue() bool         { return p.overdue.Load() }
func (p *Place) Fork() transport.Place { return new(Place) }

func (p *Place) Leave() {
	if p.entered.Swap(false) {
		p.left.Add(1)
	}
}

// SetOverdue makes Overdue report true until p is entered again.
func (p *Place) SetOverdue() { p.overdue.Store(true) }

// Entered reports whether p was entered and not left since.
func (p *Place) Entered() bool { return p.entered.Load() }

// Left returns how often p was left.
func (p *Place) Left() int { return int(p.left.Load()) }

// A Wait is a reason why a goroutine with a Place waits.
type Wait struct {
	Name string

	// Start has another goroutine wait, which has entered p. What it returns ends the wait
	// and is always called.
	Start func(t *testing.T, p *Place) (end func())
}

// TestLeavesPlace checks that each of the waits leaves its Place. Eventually is that of
// package testutil.
func TestLeavesPlace(t *testing.T, eventually func(t testing.TB, what string, cond func() bool), waits []Wait) {
	for _, w := range waits {
		t.Run(w.Name, func(t *testing.T) {
			p := new(Place)
			p.Enter()
			defer w.Start(t, p)()
			eventually(t, "the place is left", func() bool { return !p.Entered() })
		})
	}
}
