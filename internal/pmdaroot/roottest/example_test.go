package roottest_test

import (
	"testing"

	"github.com/gopcp/pmcd/internal/pmdaroot"
	"github.com/gopcp/pmcd/internal/pmdaroot/roottest"
)

// This is a test of a program that requests control groups of containers.
func Example() {
	testCgroup := func(t *testing.T) { // in the package: func TestCgroup(t *testing.T)
		root := roottest.Start(t)
		root.Set("web", roottest.Container{PID: 4321, Cgroup: "docker/web"})
		c := pmdaroot.Client{Path: root.Socket}
		defer c.Close()
		if got, err := c.Cgroup("web"); got != "docker/web" || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	_ = testCgroup
}
