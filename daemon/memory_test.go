package daemon

import (
	"encoding/binary"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// largeProfile returns a profile of n bytes that selects one instance of 240.1.
func largeProfile(context, inst int32, n int) *pdu.Profile {
	p := &pdu.Profile{Context: context, InDoms: []pdu.InDomProfile{
		{InDom: pdu.NewInDom(240, 1), Exclude: true, Insts: []int32{inst}},
		{InDom: pdu.NewInDom(240, 9), Exclude: true, Insts: make([]int32, n/4)},
	}}
	for i := range p.InDoms[1].Insts {
		p.InDoms[1].Insts[i] = int32(-i)
	}
	return p
}

// fetchInst returns what a fetch of the metric of 240 with instances brings.
func (c *client) fetchInst(context int32) string {
	c.t.Helper()
	return show(c.do(&pdu.Fetch{Context: context, PMIDs: []pdu.PMID{id(240, 3)}}))
}

// Clients of one host that fill the memory are evicted for smaller ones of that host, and for
// another host.
func TestProfilesOfManyClients(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Limits.ClientMemory = 4 * 1000 << 10 }, nil)
	const size, most = 60 << 10, 4 // with its request, a client of one profile holds less than one of four
	var greedy []*client
	for range 5 {
		c := r.dial()
		greedy = append(greedy, c)
		for context := range int32(most) {
			c.send(largeProfile(context, 0, size))
		}
		c.fetchInst(0) // of the last client, one is refused
	}
	for i := range 12 {
		c := r.dial()
		c.send(largeProfile(0, 0, size))
		if got := c.fetchInst(0); got != "240.0.3=100" {
			t.Fatalf("client %d: %s", i, got)
		}
	}
	other := r.dialTo("unix", r.unix, 0)
	for context := range int32(most) {
		other.send(largeProfile(context, 1, size))
		if got := other.fetchInst(context); got != "240.0.3=101" {
			t.Fatalf("another client, context %d: %s", context, got)
		}
	}
	r.awaitLogged(t, "is disconnected: profiles: it has")
	left := 0
	for _, c := range greedy {
		b, err := pdu.Append(nil, 7, &pdu.Fetch{Context: 3, PMIDs: []pdu.PMID{id(240, 3)}})
		if err != nil {
			t.Fatal(err)
		}
		c.Conn.Write(b) // an error if the client knows already that it is disconnected
		if b, err := c.Receive(); err == nil && len(b) > 0 {
			left++
		}
	}
	if left > 1 {
		t.Errorf("%d clients with many profiles are left", left)
	}
	if n := r.held("profiles"); n > 1000<<10 {
		t.Errorf("clients hold %d bytes", n)
	}
}

// Requests that never end do not take more memory than there is, and none when their
// clients have gone.
func TestIncompleteRequests(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Limits.ClientMemory = 12 * 200 << 10 }, nil)
	half := make([]byte, 40<<10)
	binary.BigEndian.PutUint32(half, 60<<10)
	binary.BigEndian.PutUint32(half[4:], uint32(pdu.TypeProfile))
	var clients []*client
	for range 12 {
		c := r.dial()
		clients = append(clients, c)
		c.sendBytes(half)
	}
	testutil.Eventually(t, "some are disconnected", func() bool {
		return r.logged("is disconnected: incomplete requests: it has") && r.held("incomplete requests") <= 200<<10
	})
	other := r.dialTo("unix", r.unix, 0)
	other.send(largeProfile(0, 1, 20<<10))
	if got := other.fetchInst(0); got != "240.0.3=101" {
		t.Errorf("another client: %s", got)
	}
	for _, c := range append(clients, other) {
		c.Conn.Close()
	}
	testutil.Eventually(t, "no memory is used", func() bool { return r.held("incomplete requests") == 0 })
}

// held returns how many bytes clients hold of a kind.
func (r *harness) held(kind string) int64 {
	for _, l := range r.Status().Limits {
		if l.Name == kind {
			return l.Used
		}
	}
	return -1
}
