package session

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/agents/fairqueue"
)

// newTestAccount returns an account whose client is noted in evicted when it is
// disconnected.
func newTestAccount(group, name string, evicted *[]string) *account {
	return &account{group: fairqueue.Group{ID: uint64(group[0])}, evict: func(error) { *evicted = append(*evicted, name) }}
}

func TestMemory(t *testing.T) {
	type step struct {
		group, client string
		n             int64 // to hold; to drop if it is negative
		fails         bool
		evicted       []string
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"a group takes what there is", []step{{"a", "a1", 60, false, nil}, {"a", "a2", 40, false, nil}}},
		{"a group gets no more than there is", []step{{"a", "a1", 60, false, nil}, {"a", "a2", 50, true, nil}, {"a", "a2", 40, false, nil}}},
		{"the largest client of the largest group makes room", []step{
			{"a", "a1", 50, false, nil}, {"a", "a2", 30, false, nil}, {"b", "b1", 20, false, nil}, {"b", "b2", 10, false, []string{"a1"}},
		}},
		{"several make room", []step{
			{"a", "a1", 30, false, nil}, {"a", "a2", 36, false, nil}, {"a", "a3", 34, false, nil}, {"b", "b1", 40, false, []string{"a2", "a3"}},
		}},
		{"a group does not become the largest at the cost of another", []step{
			{"a", "a1", 60, false, nil}, {"b", "b1", 40, false, nil}, {"b", "b2", 30, true, nil}, {"b", "b2", 10, false, []string{"a1"}},
		}},
		{"too much for all", []step{{"a", "a1", 101, true, nil}, {"a", "a1", 100, false, nil}}},
		{"what is dropped is free", []step{
			{"a", "a1", 100, false, nil}, {"a", "a1", -100, false, nil}, {"b", "b1", 100, false, nil},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := &memory{limit: 100}
			var evicted []string
			accounts := make(map[string]*account)
			for i, s := range tt.steps {
				a := accounts[s.client]
				if a == nil {
					a = newTestAccount(s.group, s.client, &evicted)
					accounts[s.client] = a
				}
				evicted = nil
				var err error
				if s.n < 0 {
					m.drop(a, -s.n)
				} else {
					err = m.hold(a, s.n)
				}
				if (err != nil) != s.fails || !slices.Equal(evicted, s.evicted) {
					t.Errorf("step %d: error %v, disconnected %v", i, err, evicted)
				}
			}
		})
	}
}

// The sums agree with the accounts, whatever is held, dropped and closed.
func TestMemorySums(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 19))
		m := &memory{limit: 1000}
		var evicted []string
		var accounts []*account
		for range 500 {
			if len(accounts) < 20 {
				accounts = append(accounts, newTestAccount(string(rune('a'+random.IntN(5))), "", &evicted))
			}
			i := random.IntN(len(accounts))
			switch a := accounts[i]; random.IntN(4) {
			case 0:
				m.drop(a, random.Int64N(a.used+1))
			case 1:
				m.close(a)
				accounts = slices.Delete(accounts, i, i+1)
			default:
				m.hold(a, random.Int64N(300))
			}
			var sum int64
			for _, a := range accounts {
				sum += a.used
			}
			if used := m.info().Used; used != sum || used > m.limit {
				t.Fatalf("seed %d: %d bytes are used, the accounts have %d", seed, used, sum)
			}
		}
		for _, a := range accounts {
			m.close(a)
		}
		if len(m.groups) != 0 || m.used != 0 {
			t.Fatalf("seed %d: %d groups and %d bytes are left", seed, len(m.groups), m.used)
		}
	}
}
