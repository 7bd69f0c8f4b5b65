package peertest

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// acctRecord composes a record of process accounting, struct acct_v3 of
// linux/acct.h. Numbers is what the kernel compresses.
func acctRecord(flags byte, tty uint16, pid, uid, btime uint32, etime float32, comm string, numbers ...uint16) []byte {
	order := binary.NativeEndian
	b := order.AppendUint16([]byte{flags, 3}, tty)
	for _, n := range []uint32{0x100, uid, uid + 1, pid, 1, btime, math.Float32bits(etime)} {
		b = order.AppendUint32(b, n)
	}
	for _, n := range append(numbers, make([]uint16, 8-len(numbers))...) {
		b = order.AppendUint16(b, n)
	}
	return append(append(b, comm...), make([]byte, 16-len(comm))...)
}

// Processes that have ended are those of pmdaproc, for a file that is composed.
func TestProcAcct(t *testing.T) {
	path := t.TempDir() + "/pacct"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	filler := acctRecord(0, 0, 0, 0, 0, 0, "") // of no process
	f.Write(filler)
	t.Setenv("PCP_PACCT_SYSTEM_PATH", path)
	c, ours, metrics, _ := procAgents(t, "")
	indom := pdu.NewInDom(3, 40)
	insts := func(tr transport.Transport) []pdu.Inst {
		return ask[pdu.Instance](t, tr, &pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst}).Insts
	}

	// pmdaproc believes in accounting if the file grows while it has a process end.
	stop, grows := make(chan struct{}), sync.WaitGroup{}
	grows.Go(func() {
		tick := time.NewTicker(100 * time.Microsecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				f.Write(filler)
			}
		}
	})
	both := peer.Until(peer.Hangs, func() bool {
		f.Write(acctRecord(0, 0, 100, 0, uint32(time.Now().Unix()), 1, "first"))
		return len(insts(c)) > 0 && len(insts(ours)) > 0
	})
	close(stop)
	grows.Wait()
	if !both {
		t.Fatal("no accounting")
	}

	now := uint32(time.Now().Unix())
	for _, b := range [][]byte{
		acctRecord(0x1f, 0x8803, 101, 0, now-20, 300.5, "sh", 1, 2, 3, 4, 5, 6, 7, 8),
		acctRecord(0, 0x0401, 102, 1, now-20, 100, "a b", 0xffff, 0x1fff, 0x2001, 0xe000, 0x8001, 0x7fff, 0xa123, 0xc321),
		acctRecord(0x20, 0xffff, 103, 12345, now-1000, 99000, "sh"), // no such user
		acctRecord(0, 0, 104, 0, now-1000, 100, "long ago"),
		acctRecord(0, 0, 102, 0, now-20, 100, "102 again"),
		acctRecord(8, 0, math.MaxInt32, 0, now, 0, "123456789012345"),
		acctRecord(0x10, 0, 106, 0, now+1000, 0, ""),
	} {
		f.Write(b)
	}
	if theirs, got := fmt.Sprint(insts(c)), fmt.Sprint(insts(ours)); theirs != got || strings.Count(got, "{") != 6 {
		t.Errorf("instances\npmdaproc has %s\nours         %s", theirs, got)
	}
	set := func(tr transport.Transport, id pdu.PMID) string {
		s := ask[pdu.Result](t, tr, &pdu.Fetch{PMIDs: []pdu.PMID{id}}).Sets[0]
		slices.SortFunc(s.Values, func(a, b pdu.Value) int { return int(a.Inst) - int(b.Inst) })
		return fmt.Sprintf("%v %v", s.Err, s.Values)
	}
	compared := 0
	for _, m := range metrics {
		if strings.HasPrefix(m.Name, "acct.") && !newIn7(m) {
			same(t, m.Name, set(c, m.PMID), set(ours, m.PMID))
			compared++
		}
	}
	if compared != 29 {
		t.Errorf("%d metrics", compared)
	}

	// What can be stored, and by whom.
	for _, uid := range []int{0, 1} {
		for _, tr := range []transport.Transport{c, ours} {
			identify(tr, uid, 0)
		}
		for item := 22; item < 29; item++ {
			values := []pdu.Value{{Inst: pdu.NoInst, Word: 0}, {Inst: pdu.NoInst, Word: 3600}}
			switch item {
			case 25:
				values = []pdu.Value{{Inst: pdu.NoInst, Type: pdu.MetricU64, Block: []byte{0, 0, 0, 0, 0, 0, 0, 9}}, values[0]}
			case 28:
				values = values[:1] // the other switches it on for the machine
			}
			for _, v := range values {
				s := pdu.ValueSet{PMID: pdu.NewPMID(3, 70, item), Values: []pdu.Value{v}}
				if v.Block != nil {
					s.Format = pdu.FormatBlock
				}
				store := func(tr transport.Transport) string {
					return fmt.Sprint(transporttest.Do(tr, agents.Origin{}, &pdu.Result{Sets: []pdu.ValueSet{s}}, new(pdu.Error)))
				}
				what := fmt.Sprintf("store of %+v into %v by %d", v, s.PMID, uid)
				same(t, what, store(c), store(ours))
				same(t, what, set(c, s.PMID), set(ours, s.PMID))
			}
		}
	}
}
