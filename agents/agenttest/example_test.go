package agenttest_test

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/builtin/trivial"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pdu"
)

// This is a test in the package of an agent.
func ExampleTest() {
	testAgent := func(t *testing.T) { // in the package: func TestAgent(t *testing.T)
		a, err := trivial.New(400) // the agent to be tested
		if err != nil {
			t.Fatal(err)
		}
		agenttest.Test(t, a, pdu.NewPMID(400, 0, 0))
	}
	_ = testAgent
}

// This is a test of an agent that runs as a PMDA with a Unix domain socket.
func ExampleTestStream() {
	testPMDA := func(t *testing.T) { // in the package: func TestPMDA(t *testing.T)
		socket := filepath.Join(t.TempDir(), "socket")
		l, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() { // instead of this goroutine, a test can start a program
			conn, err := l.Accept()
			if err != nil {
				return
			}
			a, err := trivial.New(400)
			if err != nil {
				conn.Close()
				return
			}
			serve.Serve(t.Context(), a, conn)
		}()
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		agenttest.TestStream(t, conn, pdu.NewPMID(400, 0, 0))
	}
	_ = testPMDA
}

// A test can send one request and look at the reply.
func ExampleDo() {
	a, err := trivial.New(400)
	if err != nil {
		fmt.Println(err)
		return
	}
	var d pdu.Desc
	if err := agenttest.Do(a, agents.Origin{}, &pdu.DescReq{PMID: pdu.NewPMID(400, 0, 0)}, &d); err != nil {
		fmt.Println(err)
	}
	fmt.Println(d.Units)
	fmt.Println(agenttest.Do(a, agents.Origin{}, &pdu.DescReq{PMID: pdu.NewPMID(400, 0, 1)}, &d))
	// Output:
	// sec
	// no metric of that identifier
}
