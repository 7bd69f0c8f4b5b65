package agenttest_test

import (
	"testing"

	"github.com/gopcp/pmcd/agents/agenttest"
	"github.com/gopcp/pmcd/agents/transport"
)

// This is a test in the package of an agent.
func ExampleTest() {
	testSuite := func(t *testing.T) { // in the package: func TestSuite(t *testing.T)
		a := &agenttest.Agent{Domain: 400} // the agent to be tested
		tr := transport.Inline(a)
		defer tr.Close()
		agenttest.Test(t, tr, a.Metrics()...)
	}
	_ = testSuite
}
