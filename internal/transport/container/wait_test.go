package container_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/container"
	"github.com/gopcp/pmcd/pdu"
)

// A client waits for others that ask for a container no longer than its timeout.
func TestProxyWaitsNoLongerThanTheTimeout(t *testing.T) {
	asked, release := make(chan struct{}, 2), make(chan struct{})
	proxy := container.New(transport.Local(newAgent(100)), container.Options{
		Name: "box", Log: slog.New(new(logLines)),
		Available: func() bool { return true },
		Exists: func(context.Context, string) bool {
			asked <- struct{}{}
			<-release
			return false
		},
	})
	defer proxy.Close()
	req, err := pdu.Append(nil, 0, &pdu.Fetch{PMIDs: []pdu.PMID{metric}})
	if err != nil {
		t.Fatal(err)
	}
	send := func(client int32, timeout time.Duration) <-chan error {
		proxy.Notify(transport.Notice{Client: client, Attrs: []pdu.Attr{{Code: pdu.AttrContainer, Value: []byte("box")}}})
		sent := make(chan error, 1)
		go func() {
			_, err := proxy.Send(&transport.Call{Origin: agents.Origin{Client: client}, Req: req, Timeout: timeout})
			sent <- err
		}()
		return sent
	}
	first := send(1, time.Hour)
	<-asked
	select {
	case err := <-send(2, time.Millisecond):
		if err != transport.ErrLate {
			t.Errorf("got %v, want %v", err, transport.ErrLate)
		}
	case <-time.After(testutil.Hangs):
		t.Error("the second client still waits")
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
}
