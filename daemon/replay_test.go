package daemon

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/routes"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// capture returns a PDU captured from C pmcd, its clients or its agents.
func capture(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "pdu", "testdata", "pdus", name+".hex"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A replay plays agents from captures: it answers a request with the reply that was
// captured, and records all requests.
type replay struct {
	mu      sync.Mutex
	answers map[string][]byte // by request, as key makes it
	got     map[string]bool
}

// key is a PDU without what differs from one run to the next: the sender, and
// the time of a store.
func key(b []byte) string {
	b = bytes.Clone(b)
	_, t, _ := pdu.Header(b)
	clear(b[8:12])
	if t == pdu.TypeResult {
		clear(b[12:20])
	}
	return string(b)
}

func (p *replay) play(creds []byte) func(wire.Conn) {
	return func(c wire.Conn) {
		c.Write(creds)
		r := pdu.NewReader(c, 0)
		for {
			b, err := r.Next()
			if err != nil {
				return
			}
			k := key(b)
			p.mu.Lock()
			p.got[k] = true
			answer := p.answers[k]
			p.mu.Unlock()
			switch _, t, _ := pdu.Header(b); {
			case answer != nil:
				c.Write(answer)
			case t != pdu.TypeCreds && t != pdu.TypeProfile && t != pdu.TypeAttr && t != pdu.TypeError:
				c.Write(errorPDU(pdu.ErrnoFault)) // was never asked
			}
		}
	}
}

// split makes of a client's fetch and its result what each agent was asked
// and what it answered.
func (p *replay) split(t *testing.T, fetch, result []byte) {
	t.Helper()
	_, m, err := pdu.Parse(result)
	if err != nil {
		t.Fatal(err)
	}
	var sets []pdu.ValueSet
	switch m := m.(type) {
	case *pdu.Result:
		sets = m.Sets
	case *pdu.HighResResult:
		sets = m.Sets
	}
	context := int32(binary.BigEndian.Uint32(fetch[12:]))
	for domain := range routes.Domains {
		f, r := pdu.Fetch{Context: context}, pdu.Result{}
		for _, vs := range sets {
			// An agent is asked once for a metric that is repeated.
			if vs.PMID.Domain() == domain && !slices.Contains(f.PMIDs, vs.PMID) {
				f.PMIDs = append(f.PMIDs, vs.PMID)
				r.Sets = append(r.Sets, vs)
			}
		}
		if len(f.PMIDs) == 0 {
			continue
		}
		req, err := pdu.Append(nil, 0, &f)
		if err != nil {
			t.Fatal(err)
		}
		if p.answers[key(req)], err = pdu.Append(nil, 0, &r); err != nil {
			t.Fatal(err)
		}
	}
}

// The conversations that were captured from C pmcd, played again: the same
// requests get the same replies, and agents the same requests.
func TestReplay(t *testing.T) {
	p := &replay{answers: make(map[string][]byte), got: make(map[string]bool)}
	play := make(map[int]func(wire.Conn))
	play[2], play[253] = p.play(capture(t, "a2p_creds_flags0")), p.play(capture(t, "a2p_creds_flags0"))
	play[29], play[30] = p.play(capture(t, "a2p_creds_auth")), p.play(capture(t, "a2p_creds_flags0"))
	play[240] = p.play(capture(t, "a2p_creds_auth_container"))

	r := newHarness(t, func(c *Config) {
		dir := filepath.Dir(c.Files.Conf)
		os.WriteFile(c.Files.Conf, []byte("pmcd 2 pipe binary p\nsample 29 pipe binary s\ndso 30 pipe binary d\n"+
			"fake 240 pipe binary f\nsimple 253 pipe binary s\n"), 0o666)
		os.WriteFile(filepath.Join(dir, "pmns"), []byte(`
root { fake simple sample }
fake { a 240:0:0 b 240:0:1 c 240:0:2 dup1 240:0:3 dup2 dyn 240:*:* }
fake.dup2 { x 240:0:3 }
simple { numfetch 253:0:0 color 253:0:1 time now 253:2:4 }
simple.time { user 253:1:2 sys 253:1:3 }
sample { long secret 29:*:* ghosts 29:*:* }
sample.long { one 29:0:10 ten 29:0:11 }
`), 0o666)
	}, play)
	r.awaitStarts()

	c := r.connect("tcp", r.tcp)
	greeting, err := c.Receive()
	want := capture(t, "s2c_error_greeting_ok")
	binary.BigEndian.PutUint32(want[16:], pdu.GreetingInfo(pdu.FeatureContainer|pdu.FeatureLabels|pdu.FeatureHighRes|pdu.FeatureDescs)) // no AUTH
	if err != nil || !bytes.Equal(greeting, want) {
		t.Fatalf("greeting: %x, %v", greeting, err)
	}
	c.sendBytes(capture(t, "c2s_creds_container"))
	c.sendBytes(capture(t, "c2s_attr_container"))
	c.sendBytes(capture(t, "c2s_profile_empty"))
	c.sendBytes(capture(t, "c2s_profile_multi"))

	child, err := pdu.Append(nil, 0, &pdu.PMNSChild{Name: "fake.dyn"})
	if err != nil {
		t.Fatal(err)
	}
	steps := []struct {
		request string // of the client's
		agent   string // the agent's answer; "" is the client's reply; "-": no agent is asked
		reply   string
	}{
		{"c2s_fetch_mixed", "", "s2c_result_mixed"},
		{"c2s_highres_fetch_mixed", "", "s2c_highres_result_mixed"},
		{"c2s_fetch_types", "", "s2c_result_types"},
		{"c2s_desc_req", "a2p_desc", "s2c_desc"},
		{"c2s_instance_req_all", "a2p_instance_all", "s2c_instance_all"},
		{"c2s_instance_req_by_name", "", "s2c_instance_by_name"},
		{"c2s_instance_req_by_id", "", "s2c_instance_by_id"},
		{"c2s_text_req_pmid_oneline", "a2p_text", "s2c_text_pmid_oneline"},
		{"c2s_text_req_indom_help", "", "s2c_text_indom_help"},
		{"c2s_label_req_domain", "a2p_label_domain", "s2c_label_domain"},
		{"c2s_label_req_indom", "", "s2c_label_indom"},
		{"c2s_label_req_cluster", "", "s2c_label_cluster"},
		{"c2s_label_req_item", "", "s2c_label_item_empty"},
		{"c2s_label_req_instances", "", "s2c_label_instances"},
		{"c2s_result_store_insitu", "a2p_error_zero", "s2c_error_zero"},
		{"c2s_result_store_string", "a2p_error_zero", "s2c_error_zero"},
		{"c2s_result_store_double", "s2c_error_permission", "s2c_error_permission"},
		{"c2s_result_store_whoami", "a2p_error_zero", "s2c_error_zero"},
		{"c2s_pmns_ids_req", "-", "s2c_pmns_names_dups"},
		{"c2s_pmns_child", "-", "s2c_pmns_names_child"},
		{"c2s_pmns_child_status", "-", "s2c_pmns_names_child_status"},
		{"c2s_pmns_traverse", "-", "s2c_pmns_names_traverse"},
		{"c2s_pmns_names_lookup", "-", "s2c_pmns_ids_partial"},
	}
	for _, s := range steps {
		req, reply := capture(t, s.request), capture(t, s.reply)
		_, typ, _ := pdu.Header(req)
		switch {
		case typ == pdu.TypeFetch || typ == pdu.TypeHighResFetch:
			p.mu.Lock()
			p.split(t, req, reply)
			p.mu.Unlock()
		case s.agent != "-":
			answer := reply
			if s.agent != "" {
				answer = capture(t, s.agent)
			}
			p.mu.Lock()
			p.answers[key(req)] = answer
			p.mu.Unlock()
		}
		c.sendBytes(req)
		got, err := c.Receive()
		if err != nil {
			t.Fatalf("%s: %v", s.request, err)
		}
		got = bytes.Clone(got)
		switch _, t, _ := pdu.Header(got); t {
		case pdu.TypeResult:
			clear(got[12:20])
			clear(reply[12:20])
		case pdu.TypeHighResResult:
			clear(got[16:32])
			clear(reply[16:32])
		}
		if !bytes.Equal(got, reply) {
			t.Errorf("%s:\n got %x\nwant %x", s.request, got, reply)
		}
	}

	// Requests that only agents were captured with.
	requests := []struct{ name, answer string }{
		{"p2a_pmns_traverse", "a2p_pmns_names_traverse"},
		{"p2a_pmns_names", "a2p_pmns_ids"},
		{"p2a_pmns_child", ""},
		{"p2a_pmns_ids", "a2p_error_pmid"},
		{"p2a_instance_req_name", "a2p_instance_name"},
		{"p2a_result_store", "a2p_error_zero"},
	}
	for _, a := range requests {
		req := capture(t, a.name)
		if a.answer != "" {
			p.mu.Lock()
			p.answers[key(req)] = capture(t, a.answer)
			p.mu.Unlock()
		}
		c.sendBytes(req)
		if _, err := c.Receive(); err != nil {
			t.Fatalf("%s: %v", a.name, err)
		}
	}
	p.mu.Lock()
	p.answers[key(child)] = errorPDU(pdu.ErrnoName)
	p.mu.Unlock()
	c.sendBytes(child)
	if got, err := c.Receive(); err != nil || !bytes.Equal(got, capture(t, "s2c_pmns_names_negative")) {
		t.Errorf("children that an agent does not know: %x, %v", got, err)
	}

	c.Conn.Close()
	testutil.Eventually(t, "client gone", func() bool { return r.sessions.NumClients() == 0 })
	seen := func(name string, b []byte) {
		testutil.Eventually(t, name+" sent", func() bool {
			p.mu.Lock()
			defer p.mu.Unlock()
			return p.got[key(b)]
		})
	}
	for _, name := range []string{
		"p2a_profile_empty", "p2a_desc_req", "p2a_instance_req_all", "p2a_instance_req_name", "p2a_text_req",
		"p2a_label_req", "p2a_pmns_traverse", "p2a_pmns_names", "p2a_pmns_child", "p2a_pmns_ids",
		"p2a_result_store", "p2a_attr_container", "p2a_error_end_context",
	} {
		seen(name, capture(t, name))
	}
	for _, name := range []string{"p2a_creds_flags0", "p2a_creds_auth"} {
		seen(name, capture(t, name))
	}
}
