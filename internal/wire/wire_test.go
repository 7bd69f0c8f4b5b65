package wire_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// The suite of transporttest passes over each transport.
func TestAgent(t *testing.T) {
	t.Run("in process", func(t *testing.T) {
		c := transport.Inline(oneMetricAgent{})
		defer c.Close()
		transporttest.Test(t, c, metricID)
	})
	t.Run("in process, apart", func(t *testing.T) {
		c := transport.Local(oneMetricAgent{})
		defer c.Close()
		transporttest.Test(t, c, metricID)
	})
	t.Run("connection", func(t *testing.T) {
		transporttest.Test(t, serveAgent(t, oneMetricAgent{}, wire.Options{}), metricID)
	})
	t.Run("child", func(t *testing.T) {
		transporttest.Test(t, startSelf(t), metricID)
	})
	t.Run("child, may block", func(t *testing.T) {
		transporttest.Test(t, mayBlockTransport{startSelf(t)}, metricID)
	})
}

func TestPeerSample(t *testing.T) {
	const pmda = "/var/lib/pcp/pmdas/sample/pmdasample"
	testutil.NeedPeer(t, pmda)
	testutil.NeedRoot(t) // the PMDA ends if it cannot change its user
	c, _ := startPMDA(t, wire.Options{}, pmda, "-d", "29", "-l", filepath.Join(t.TempDir(), "log"), "-U", "root")
	transporttest.Test(t, c, pdu.NewPMID(29, 0, 10), pdu.NewPMID(29, 0, 6))
	var r pdu.Result // of sample.bin
	if err := transporttest.Do(c, agents.Origin{}, &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(29, 0, 6)}}, &r); err != nil {
		t.Fatal(err)
	}
	if n := len(r.Sets[0].Values); n != 9 {
		t.Errorf("sample.bin has %d values, want 9", n)
	}
	for _, v := range r.Sets[0].Values {
		if v.Word != uint32(v.Inst) { // bin-100 is 100, and so on
			t.Errorf("sample.bin[%d] = %d", v.Inst, v.Word)
		}
	}
}

// Many callers of one agent, with one request outstanding and with several:
// each gets its own reply.
func TestConcurrent(t *testing.T) {
	testutil.CheckGoroutines(t)
	for name, client := range map[string]transport.Transport{
		"inline":   transport.Inline(oneMetricAgent{}),
		"local":    transport.Local(oneMetricAgent{}),
		"depth 1":  serveAgent(t, oneMetricAgent{}, wire.Options{}),
		"depth 16": serveAgent(t, oneMetricAgent{}, wire.Options{Depth: 16}),
		"child":    startSelf(t),
	} {
		t.Run(name, func(t *testing.T) {
			defer client.Close()
			var wg sync.WaitGroup
			for clientID := range int32(8) {
				wg.Go(func() {
					for i := range 200 {
						id := pdu.NewPMID(400, int(clientID)+1, i)
						o := agents.Origin{Client: clientID}
						if i%10 == 9 {
							client.Notify(transport.Notice{Client: clientID, End: true})
						}
						var r pdu.Result
						if err := transporttest.Do(client, o, &pdu.Fetch{PMIDs: []pdu.PMID{id}}, &r); err != nil {
							t.Error(err)
							return
						}
						if r.Sets[0].PMID != id {
							t.Errorf("%v in place of %v", r.Sets[0].PMID, id)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

type panickingAgent struct{ oneMetricAgent }

func (panickingAgent) Desc(context.Context, agents.Origin, pdu.PMID) (pdu.Desc, error) { panic("ouch") }

// A panic of an agent in process ends that agent.
func TestPanic(t *testing.T) {
	testutil.CheckGoroutines(t)
	c := transport.Inline(panickingAgent{})
	for range 2 { // the error sticks
		err := transporttest.Do(c, agents.Origin{}, &pdu.DescReq{PMID: metricID}, new(pdu.Desc))
		if err == nil || !strings.Contains(err.Error(), "ouch") {
			t.Errorf("got %v, want ouch", err)
		}
	}
	<-c.Done()
	c.Close()
}

// A Client without requests ends at once when the agent's process ends.
func TestPeerGone(t *testing.T) {
	testutil.CheckGoroutines(t)
	c, p := startPMDA(t, wire.Options{}, "/bin/sh", "-c", strings.Replace(shellHandshake, "head -c 36", "head -c 20", 1)+"exit 3")
	<-p.Done()
	reason := errors.New("gone")
	c.PeerGone(reason)
	<-c.Done()
	if err := doDescReq(c); !errors.Is(err, reason) {
		t.Errorf("got %v, want %v", err, reason)
	}
}

// With a descriptor in blocking mode Dial still ends when its context does, and the
// garbage collector can run meanwhile.
func TestBlockingDescriptor(t *testing.T) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fds[1])
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	dialed := make(chan error)
	go func() {
		_, err := wire.Dial(ctx, os.NewFile(uintptr(fds[0]), "blocks"), wire.Options{})
		dialed <- err
	}()
	runtime.GC()
	if err := <-dialed; err == nil {
		t.Error("dialed")
	}
}
