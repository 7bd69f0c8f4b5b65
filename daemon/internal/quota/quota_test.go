package quota

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/fairqueue"
)

// newClient returns a client with a name such as "a1x": client x of member 1 of group a. It is
// added to gone when it is evicted.
func newClient(name string, gone *[]string) *Client {
	return &Client{
		Key:     fairqueue.Key{Group: fairqueue.Group{ID: uint64(name[0])}, Member: uint64(name[1])},
		Address: name,
		Evict:   func(error) { *gone = append(*gone, name) },
	}
}

func TestHold(t *testing.T) {
	type step struct {
		client string
		n      int64 // to hold; to drop if it is negative
		fails  bool
		gone   []string
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"a group takes what there is", []step{{"a1", 60, false, nil}, {"a2", 40, false, nil}}},
		{"a client gets no more than there is", []step{{"a1", 101, true, nil}, {"a1", 100, false, nil}}},
		{"the largest client of the largest group is evicted", []step{
			{"a1", 50, false, nil}, {"a2", 30, false, nil}, {"b1", 20, false, nil}, {"b2", 10, false, []string{"a1"}},
		}},
		{"several are evicted", []step{
			{"a1", 30, false, nil}, {"a2", 36, false, nil}, {"a3", 34, false, nil}, {"b1", 40, false, []string{"a2", "a3"}},
		}},
		{"a group does not become the largest at the cost of another", []step{
			{"a1", 60, false, nil}, {"b1x", 40, false, nil}, {"b1y", 45, true, nil}, {"b1z", 10, false, []string{"a1"}},
		}},
		{"a client does not become the largest at the cost of another", []step{{"a1", 60, false, nil}, {"b1", 70, true, nil}}},
		{"nor does one that holds some", []step{{"a1", 60, false, nil}, {"b1", 30, false, nil}, {"b1", 35, true, nil}, {"b1", 10, false, nil}}},
		{"of equals it is the one that asks", []step{{"a1", 50, false, nil}, {"a2", 50, false, nil}, {"a3", 50, true, nil}}},
		{"of a group it is the largest member, whatever its clients have", []step{
			{"a1x", 20, false, nil}, {"a1y", 20, false, nil}, {"a1z", 20, false, nil}, {"a2", 30, false, nil}, {"a3", 20, false, []string{"a1*"}},
		}},
		{"of a group it is the largest member, though another group is smaller", []step{
			{"a1", 60, false, nil}, {"b1", 40, false, nil}, {"b2", 30, false, []string{"b1"}},
		}},
		{"of a member it is the largest client", []step{{"a1x", 50, false, nil}, {"a1y", 40, false, nil}, {"a1z", 20, false, []string{"a1x"}}}},
		{"what is dropped is free", []step{{"a1", 100, false, nil}, {"a1", -100, false, nil}, {"b1", 100, false, nil}}},
		{"a client that was evicted holds nothing", []step{
			{"a1", 100, false, nil}, {"b1", 30, false, []string{"a1"}}, {"a1", -100, false, nil}, {"a1", 90, false, nil}, {"b2", 70, false, nil},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := &Limit{Name: "profiles", Unit: "bytes", All: 100}
			var gone []string
			accounts := make(map[string]*Account)
			for i, s := range tt.steps {
				a := accounts[s.client]
				if a == nil {
					a = l.Open(newClient(s.client, &gone))
					accounts[s.client] = a
				}
				gone = nil
				var err error
				if s.n < 0 {
					a.Drop(-s.n)
				} else {
					err = a.Hold(s.n)
				}
				if (err != nil) != s.fails || !slices.EqualFunc(gone, s.gone, matches) {
					t.Errorf("step %d: error %v, %v were evicted", i, err, gone)
				}
			}
		})
	}
}

// matches reports whether a client is want, or one of a member such as "a1*".
func matches(client, want string) bool {
	member, any := strings.CutSuffix(want, "*")
	return client == want || any && strings.HasPrefix(client, member)
}

// Errors say what is exceeded.
func TestErrors(t *testing.T) {
	l := &Limit{Name: "client memory", Unit: "bytes", All: 100}
	var gone []string
	a, b, c := l.Open(newClient("a1", &gone)), l.Open(newClient("a2", &gone)), l.Open(newClient("a3", &gone))
	for _, err := range []error{a.Hold(40), b.Hold(30), c.Hold(30)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for want, err := range map[string]error{
		"client memory: it has 50 bytes, its user or host has 110, and all clients may have 100": a.Hold(10),
		"unanswered clients: it has 2, its user or host has 2, and all clients may have 1":       (&Limit{Name: "unanswered clients", All: 1}).Open(newClient("a1", &gone)).Hold(2),
	} {
		if fmt.Sprint(err) != want {
			t.Errorf("error %q, want %q", err, want)
		}
		if !errors.As(err, new(*Error)) {
			t.Errorf("error %T", err)
		}
	}
	l.Disconnected(b.client)
	if s := l.Status(); s.Used != 100 || s.Limit != 100 || s.Disconnected != 1 || s.Last != "a2" || s.LastAt.IsZero() {
		t.Errorf("status %+v", s)
	}
}

// The sums agree with the accounts, whatever is held, dropped and closed.
func TestSums(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 19))
		l := &Limit{All: 1000}
		var gone []string
		var accounts []*Account
		for range 500 {
			if len(accounts) < 20 {
				accounts = append(accounts, l.Open(newClient(fmt.Sprintf("%c%d", 'a'+random.IntN(5), random.IntN(3)), &gone)))
			}
			i := random.IntN(len(accounts))
			switch a := accounts[i]; random.IntN(4) {
			case 0:
				a.Drop(random.Int64N(a.holder.held + 1))
			case 1:
				a.Close()
				accounts = slices.Delete(accounts, i, i+1)
			default:
				a.Hold(random.Int64N(300))
			}
			var sum int64
			for _, a := range accounts {
				sum += a.holder.held
			}
			if used := l.Status().Used; used != sum || used > l.All {
				t.Fatalf("seed %d: %d bytes are held, the accounts have %d", seed, used, sum)
			}
		}
		for _, a := range accounts {
			a.Close()
		}
		if len(l.groups) != 0 || len(l.members) != 0 || len(l.all.parts) != 0 || l.all.held != 0 {
			t.Fatalf("seed %d: %d groups, %d members, %d parts and %d bytes are left", seed, len(l.groups), len(l.members), len(l.all.parts), l.all.held)
		}
	}
}
