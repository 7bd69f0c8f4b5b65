// An agent for the tests of check-agents. Its argument says what it does.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

type agent struct{ how string }

func (a agent) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if a.how == "unknown" {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

func (a agent) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	switch a.how {
	case "stuck":
		select {}
	case "ends":
		fmt.Fprintln(os.Stderr, "out of order")
		os.Exit(4)
	}
	for _, id := range r.PMIDs {
		switch a.how {
		case "absent":
			w.Fail(id, pdu.ErrnoAppVersion)
			continue
		case "other":
			id++
		}
		w.Begin(id)
		w.Word(pdu.NoInst, 1)
	}
	return nil
}

type stdio struct {
	io.Reader
	io.WriteCloser
}

func main() {
	how := os.Args[1]
	var conn io.ReadWriteCloser = stdio{os.Stdin, os.Stdout}
	switch how {
	case "hangs":
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "waiting for something")
		select {}
	case "dies":
		fmt.Fprintln(os.Stderr, "no such device")
		os.Exit(3)
	case "floods":
		line := strings.Repeat("x", 200)
		for range 50 {
			fmt.Fprintln(os.Stderr, line)
		}
		fmt.Fprintln(os.Stderr, "\x1b[2Jenough")
		os.Exit(5)
	case "garbage":
		for {
			if _, err := fmt.Println("hello, world"); err != nil {
				return
			}
		}
	case "logs":
		os.WriteFile("logs.log", []byte("to the log\n"), 0o666)
		os.Exit(6)
	case "listens":
		ln, err := net.Listen(os.Args[2], os.Args[3])
		if err == nil {
			conn, err = ln.Accept()
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(7)
		}
	}
	if err := serve.Serve(context.Background(), agent{how}, conn); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if how == "stays" {
		signal.Ignore(syscall.SIGTERM)
		select {}
	}
}
