package session

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gopcp/pmcd/internal/transport"
)

// contexts behaves as a map with a limit does.
func TestContexts(t *testing.T) {
	const limit = 5
	numbers := []int32{0, 1, 2, 63, 64, 65, 1000, math.MaxInt32, math.MinInt32, -1}
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 14))
		var c contexts
		model := make(map[int32]*transport.Profile)
		for step := range 100 {
			n := numbers[random.IntN(len(numbers))]
			if random.IntN(2) == 0 {
				if got := c.get(n); got != model[n] {
					t.Fatalf("seed %d, step %d: profile of %d: %p, want %p", seed, step, n, got, model[n])
				}
				continue
			}
			if random.IntN(8) == 0 {
				c.set(n, nil)
				delete(model, n)
				continue
			}
			p := new(transport.Profile)
			was, known := model[n]
			room := known || len(model) < limit
			if room {
				model[n] = p
			}
			old, got := c.room(n, limit)
			if got {
				c.set(n, p)
			}
			if got != room || old != was || c.len() != len(model) {
				t.Fatalf("seed %d, step %d: set %d: %v, %d contexts; want %v, %d", seed, step, n, got, c.len(), room, len(model))
			}
		}
		for _, n := range numbers {
			if got := c.get(n); got != model[n] {
				t.Fatalf("seed %d: at the end, profile of %d: %p, want %p", seed, n, got, model[n])
			}
		}
	}
}

// Memory follows the profiles that were sent, whatever the numbers of contexts
// are. Looking one up takes none.
func TestContextsMemory(t *testing.T) {
	p := new(transport.Profile)
	one := testing.AllocsPerRun(100, func() {
		var c contexts
		c.set(math.MaxInt32, p)
		c.set(math.MaxInt32, p)
	})
	if one != 0 {
		t.Errorf("%v allocations for one context", one)
	}
	var c contexts
	for i := range int32(64) {
		c.set(i*1e7, p)
	}
	i := int32(0)
	if n := testing.AllocsPerRun(1000, func() {
		if i = (i + 1) % 64; c.get(i*1e7) != p {
			t.Fatal("not found")
		}
		if old, ok := c.room(i*1e7+1, 64); old != nil || ok {
			t.Fatal("found")
		}
	}); n != 0 {
		t.Errorf("%v allocations for a look-up", n)
	}
}
