package wire_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// profileMark returns a number that identifies a profile.
func profileMark(p *pdu.Profile) int32 {
	switch {
	case p == nil:
		return -1
	case len(p.InDoms) > 0:
		return p.InDoms[0].Insts[0]
	case p.Exclude:
		return 1
	}
	return 0
}

// profilePMDA is a PMDA that answers each FETCH with the mark of the profile that it
// has. It discards the profile at the end of the client that it was sent for. At
// random it is slow or late, or closes the stream.
func profilePMDA(conn wire.Conn) {
	defer conn.Close()
	put := func(m pdu.Message) bool {
		b, err := pdu.Append(nil, 0, m)
		if err == nil {
			_, err = conn.Write(b)
		}
		return err == nil
	}
	put(&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}})
	r := pdu.NewReader(conn, 0)
	var profile *pdu.Profile
	var sender int32
	for {
		b, err := r.Next()
		if err != nil {
			return
		}
		_, typ, from := pdu.Header(b)
		switch typ {
		case pdu.TypeProfile:
			profile, sender = new(pdu.Profile), from
			if _, err := pdu.ParseInto(b, profile); err != nil {
				return
			}
		case pdu.TypeError:
			if from == sender {
				profile = nil
			}
		case pdu.TypeFetch:
			var m pdu.Fetch
			if _, err := pdu.ParseInto(b, &m); err != nil {
				return
			}
			switch rand.IntN(400) {
			case 0:
				return
			case 1:
				time.Sleep(40 * time.Millisecond) // twice the callers' timeout
			case 2, 3:
				time.Sleep(11 * time.Millisecond) // more than maxQuickReply
			}
			value := pdu.Value{Inst: -1, Word: uint32(profileMark(profile))}
			if !put(&pdu.Result{Sets: []pdu.ValueSet{{PMID: m.PMIDs[0], Values: []pdu.Value{value}}}}) {
				return
			}
		}
	}
}

// Each fetch is answered with the profile of its context, whatever happens between
// fetches.
func TestStressProfiles(t *testing.T) {
	for _, depth := range []int{1, 8} {
		t.Run(fmt.Sprint("depth ", depth), func(t *testing.T) { stressProfiles(t, depth) })
	}
}

func stressProfiles(t *testing.T, depth int) {
	testutil.CheckGoroutines(t)
	const callers, rounds = 16, 300
	var mu sync.Mutex
	var current atomic.Pointer[wire.Client]
	open := func() {
		mu.Lock()
		defer mu.Unlock()
		if c := current.Load(); c != nil {
			if c.Err() == nil {
				return
			}
			c.Close()
		}
		here, there := []pairFunc{socketPair, pipePair, directPair}[rand.IntN(3)](t)
		go profilePMDA(there)
		c, err := wire.Dial(t.Context(), here, wire.Options{Depth: depth})
		if err != nil {
			t.Error(err)
			return
		}
		current.Store(c)
	}
	open()
	defer func() { current.Load().Close() }()
	var answers atomic.Int64
	var wg sync.WaitGroup
	for client := range int32(callers) {
		wg.Go(func() {
			var profiles []*pdu.Profile
			begin := func() { // a new client has the number
				some := pdu.InDomProfile{InDom: 1, Insts: []int32{100 + client}}
				profiles = []*pdu.Profile{{}, {Exclude: true}, {InDoms: []pdu.InDomProfile{some}}}
			}
			begin()
			var call transport.Call
			for round := range rounds {
				id := pdu.NewPMID(int(client), round>>10, round&0x3ff)
				context := rand.IntN(len(profiles))
				if rand.IntN(4) > 0 {
					context = 0
				}
				req, _ := pdu.Append(nil, 0, &pdu.Fetch{Context: int32(context), PMIDs: []pdu.PMID{id}})
				call = transport.Call{
					Origin:  agents.Origin{Client: client, Context: int32(context)},
					Profile: transport.NewProfile(profiles[context]), Req: req, Timeout: 20 * time.Millisecond,
					MayBlock: rand.IntN(2) == 0,
				}
				c := current.Load()
				b, err := transport.Do(c, &call, nil)
				var m pdu.Result
				switch {
				case err == transport.ErrLate:
					testutil.Until(testutil.Hangs, func() bool { return c.State() != transport.Late || c.Err() != nil })
				case err != nil:
					open()
				default:
					if _, err := pdu.ParseInto(b, &m); err != nil {
						t.Error(err)
						return
					}
					got, want := int32(m.Sets[0].Values[0].Word), profileMark(profiles[context])
					if m.Sets[0].PMID != id || got != want {
						t.Errorf("asked for %v with profile %d, got %v with %d", id, want, m.Sets[0].PMID, got)
					}
					answers.Add(1)
				}
				if rand.IntN(10) == 0 {
					c.Notify(transport.Notice{Client: client, End: true})
					begin()
				}
			}
		})
	}
	wg.Wait()
	if answers.Load() == 0 {
		t.Error("no answer at all")
	}
	t.Logf("%d answers", answers.Load())
}
