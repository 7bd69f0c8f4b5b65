package wire_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
)

// An agent serves one end of a connection. Dial returns the Transport that
// pmcd uses at the other end.
func ExampleDial() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			err = serve.Serve(ctx, &transporttest.Agent{Domain: 400}, conn)
		}
		served <- err
	}()

	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := wire.Dial(ctx, conn.(wire.Conn), wire.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var names pdu.PMNSNames
	if err := transporttest.Do(client, agents.Origin{}, &pdu.PMNSTraverse{Name: "ref"}, &names); err != nil {
		fmt.Println(err)
	}
	fmt.Println(names.Names)
	client.Close()
	fmt.Println(<-served) // Serve returns nil when pmcd closes the connection
	// Output:
	// [ref.level ref.text ref.color.word ref.color.double ref.disk.big ref.disk.float ref.nothing]
	// <nil>
}
