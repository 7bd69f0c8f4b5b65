package daemon

import (
	"encoding/binary"
	"testing"

	"github.com/gopcp/pmcd/agents/testutil"
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

// A client has the profiles of its contexts, large and small, as long as there is room
// for all of them. A profile that is refused leaves none in its place.
func TestProfilesOfOneClient(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Memory.ClientProfiles = 100 << 10 }, nil)
	c := r.dial()
	for i := range int32(4) {
		c.send(largeProfile(i, i%3, 20<<10))
	}
	c.send(largeProfile(4, 1, 0))
	for range 2 {
		for i, want := range []string{"240.0.3=100", "240.0.3=101", "240.0.3=102", "240.0.3=100", "240.0.3=101"} {
			if got := c.fetchInst(int32(i)); got != want {
				t.Errorf("context %d: got %s, want %s", i, got, want)
			}
		}
	}
	for _, context := range []int32{7, 2} {
		p := largeProfile(context, 0, 50<<10)
		if m, ok := c.do(p).(*pdu.Error); !ok || m.Code != pdu.ErrnoEAGAIN {
			t.Errorf("a profile that is too much for context %d: %v", context, m)
		}
		if got := c.fetchInst(context); got != "PM_ERR_NOPROFILE" {
			t.Errorf("context %d after that: %s", context, got)
		}
	}
	c.send(largeProfile(2, 2, 20<<10))
	if got := c.fetchInst(2); got != "240.0.3=102" {
		t.Errorf("a smaller one: %s", got)
	}
	r.awaitLogged(t, "a profile is refused (EAGAIN): profiles: it has")
}

// Clients of one host that fill the memory give way to each other, and one of them to another host.
func TestProfilesOfManyClients(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Memory.Profiles, c.Memory.ClientProfiles = 340<<10, 100<<10 }, nil)
	var greedy []*client
	for i := range 10 {
		c := r.dial()
		greedy = append(greedy, c)
		for context := range int32(4) {
			c.send(largeProfile(context, 0, 20<<10))
		}
		// 16 profiles of 20 KiB have room, and no more: one of those before gives way.
		if got := c.fetchInst(3); got != "240.0.3=100" {
			t.Fatalf("client %d: %s", i, got)
		}
	}
	other := r.dialTo("unix", r.unix, 0)
	for context := range int32(4) {
		other.send(largeProfile(context, 1, 20<<10))
		if got := other.fetchInst(context); got != "240.0.3=101" {
			t.Fatalf("another client, context %d: %s", context, got)
		}
	}
	testutil.Eventually(t, "the log names a client that is disconnected", func() bool {
		return r.logged("is disconnected: profiles: it has 8")
	})
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
	if left != 3 {
		t.Errorf("%d clients of the first host are left, want 3", left)
	}
}

// Requests that never end do not take more memory than there is, and none when their
// clients have gone.
func TestIncompleteRequests(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Memory.Requests = 200 << 10 }, nil)
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
		return r.logged("incomplete requests: it has") && r.requestBytes() <= 200<<10
	})
	other := r.dialTo("unix", r.unix, 0)
	other.send(largeProfile(0, 1, 20<<10))
	if got := other.fetchInst(0); got != "240.0.3=101" {
		t.Errorf("another client: %s", got)
	}
	for _, c := range append(clients, other) {
		c.Conn.Close()
	}
	testutil.Eventually(t, "no memory is used", func() bool { return r.requestBytes() == 0 })
}

// requestBytes returns how many bytes are used for incomplete requests.
func (r *harness) requestBytes() int64 {
	for _, l := range r.sessions.Limits() {
		if l.Name == "incomplete requests" {
			return l.Used
		}
	}
	return -1
}
