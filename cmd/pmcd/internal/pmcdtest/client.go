package pmcdtest

import (
	"time"

	"github.com/gopcp/pmcd/pdu/pdutest"
)

// Greeted connects to a Unix domain socket and receives the greeting of pmcd, all within
// timeout.
func Greeted(path string, timeout time.Duration) (*pdutest.Client, error) {
	c, err := pdutest.Dial("unix", path, "")
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(timeout))
	if _, err := c.Greeting(); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}
