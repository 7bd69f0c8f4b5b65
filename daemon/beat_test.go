package daemon

import (
	"context"
	"errors"
	"testing"
	"time"
)

// Beat returns while clients are served, and not while they could not be.
func TestBeat(t *testing.T) {
	settled := make(chan struct{})
	r := newRig(t, func(c *Config) { c.Settled = func(_, _ int) { close(settled) } }, nil)
	<-settled
	beat := make(chan error)
	start := func() { go func() { beat <- r.Beat(t.Context()) }() }
	start()
	if err := <-beat; err != nil {
		t.Fatal(err)
	}
	r.clients.mu.Lock() // who connects now hangs
	start()
	select {
	case err := <-beat:
		t.Errorf("Beat returned although nothing goes on: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	r.clients.mu.Unlock()
	select {
	case err := <-beat:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("Beat does not return")
	}
}

// A Daemon that Run does not serve has no beat.
func TestBeatWithoutRun(t *testing.T) {
	d := &Daemon{beats: make(chan struct{})}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := d.Beat(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

// Reloading and Settled are called at a reload, the latter at the start too.
func TestSettled(t *testing.T) {
	said := make(chan [2]int, 4)
	r := newRig(t, func(c *Config) {
		c.Reloading = func() { said <- [2]int{-1, -1} }
		c.Settled = func(up, all int) { said <- [2]int{up, all} }
	}, nil)
	r.Reload()
	for _, want := range [][2]int{{4, 4}, {-1, -1}, {4, 4}} {
		select {
		case got := <-said:
			if got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("nothing was said")
		}
	}
}
