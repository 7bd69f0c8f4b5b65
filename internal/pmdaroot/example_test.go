package pmdaroot_test

import (
	"errors"
	"fmt"

	"github.com/gopcp/pmcd/internal/pmdaroot"
	"github.com/gopcp/pmcd/pdu"
)

func ExampleClient() {
	var c pmdaroot.Client // of PCP's own pmdaroot
	defer c.Close()
	pid, err := c.ProcessID("web")
	switch {
	case errors.Is(err, pdu.ErrnoNoContainer):
		fmt.Println("there is no such container")
	case err != nil:
		fmt.Println("pmdaroot:", err)
	default:
		fmt.Println("the first process of the container is", pid)
	}
}
