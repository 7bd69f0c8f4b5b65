package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// A program serves pmcd's own metrics at a Unix domain socket, without any file, and fetches
// one of them.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "pmcd.socket")

	conf, err := pmcdconf.Parse("pmcd.conf", strings.NewReader("pmcd 2 dso pmcd_init builtin\n"), pmcdconf.Options{})
	if err != nil {
		log.Fatal(err)
	}
	names, err := pmnsload.Parse("names", strings.NewReader("root { pmcd }\npmcd { numclients 2:0:3 }\n"), pmnsload.Options{})
	if err != nil {
		log.Fatal(err)
	}
	listeners, err := daemon.Listen(nil, nil, path)
	if err != nil {
		log.Fatal(err)
	}
	d, err := daemon.New(ctx, daemon.Config{
		Files:     daemon.Files{Embedded: &daemon.Embedded{Conf: conf, Names: names}},
		Listeners: listeners,
		Agents: daemon.Agents{Open: func(context.Context, *pmcdconf.Agent, wire.Options) (*transport.Conn, error) {
			return nil, errors.New("only the agent pmcd is built in")
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- d.Run(serving) }()

	c, err := pmapi.Dial(ctx, "unix:"+path, pmapi.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ids, err := c.Lookup(ctx, "pmcd.numclients")
	if err != nil {
		log.Fatal(err)
	}
	var r pmapi.Result
	if err := c.Fetch(ctx, ids, &r); err != nil {
		log.Fatal(err)
	}
	clients, err := pmapi.Decode(&r.Sets[0], r.Sets[0].Values[0], pdu.MetricU32)
	fmt.Println("clients:", clients, err)

	c.Close()
	stop()
	fmt.Println(<-ended)
	// Output:
	// clients: 1 <nil>
	// <nil>
}
