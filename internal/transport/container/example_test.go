package container_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/container"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// The agent in this process answers a client that has not chosen a container. No process is
// started for that.
func ExampleNew() {
	proxy := container.New(transport.Local(&transporttest.Agent{Domain: 400}), container.Options{
		Name: "ref",
		Start: func(context.Context) (*transport.Conn, error) {
			return nil, errors.New("there is no root helper")
		},
		Available:   func() bool { return true },
		Exists:      func(_ context.Context, name string) bool { return name == "web" },
		Log:         slog.New(slog.DiscardHandler),
		StopTimeout: time.Second,
	})
	defer proxy.Close()

	req, err := pdu.Append(nil, 0, &pdu.PMNSTraverse{Name: "ref.color"})
	if err != nil {
		log.Fatal(err)
	}
	reply, err := transport.Do(proxy, &transport.Call{Req: req, Timeout: 5 * time.Second}, nil)
	if err != nil {
		log.Fatal(err)
	}
	_, m, err := pdu.Parse(reply)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(m.(*pdu.PMNSNames).Names)
	// Output: [ref.color.word ref.color.double]
}
