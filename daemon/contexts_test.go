package daemon

import (
	"math"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

// The limit is on how many contexts a client has, and not on their numbers.
func TestContextLimit(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.MaxContexts = 3 }, nil)
	c := r.dial()
	profile := func(context, inst int32) *pdu.Profile {
		return &pdu.Profile{Context: context, InDoms: []pdu.InDomProfile{{InDom: pdu.NewInDom(240, 1), Exclude: true, Insts: []int32{inst}}}}
	}
	fetch := func(context int32, want string) {
		t.Helper()
		if got := show(c.do(&pdu.Fetch{Context: context, PMIDs: []pdu.PMID{id(240, 3)}})); got != want {
			t.Errorf("context %d: got %s, want %s", context, got, want)
		}
	}
	numbers := []int32{math.MaxInt32, 64, 100000}
	for i, n := range numbers {
		c.send(profile(n, int32(i)))
	}
	fetch(64, "240.0.3=101")
	fetch(math.MaxInt32, "240.0.3=100")
	fetch(100000, "240.0.3=102")
	fetch(0, "PM_ERR_NOPROFILE")
	for _, n := range []int32{0, 65, math.MaxInt32 - 1} {
		if m, ok := c.do(profile(n, 1)).(*pdu.Error); !ok || m.Code != pdu.ErrnoEAGAIN {
			t.Errorf("a fourth context, %d: %v", n, m)
		}
		fetch(n, "PM_ERR_NOPROFILE")
	}
	c.send(profile(64, 2)) // is one of the three
	fetch(64, "240.0.3=102")
	fetch(math.MaxInt32, "240.0.3=100")

	// Other clients have contexts of their own.
	c = r.dial()
	c.send(profile(7, 1))
	fetch(7, "240.0.3=101")
	fetch(64, "PM_ERR_NOPROFILE")
}

// A process that watches 200 hosts, two contexts for each, has connections here
// whose contexts have high numbers. It is what libpcp of PCP 7 does in a pmproxy.
func TestContextsOfManyHosts(t *testing.T) {
	r := newHarness(t, nil, nil)
	for host := range int32(200) {
		c := r.dial()
		for _, context := range []int32{2 * host, 2*host + 1} {
			c.send(&pdu.Profile{Context: context})
			if got := show(c.do(&pdu.Fetch{Context: context, PMIDs: []pdu.PMID{id(240, 1)}})); got != "240.0.1=240" {
				t.Fatalf("context %d: %s", context, got)
			}
		}
		c.Conn.Close()
	}
	// All of them on one connection are too many.
	c := r.dial()
	for context := range int32(64) {
		c.send(&pdu.Profile{Context: 1000 * context})
	}
	if m, ok := c.do(&pdu.Profile{Context: 1}).(*pdu.Error); !ok || m.Code != pdu.ErrnoEAGAIN {
		t.Errorf("the 65th context: %v", m)
	}
}
