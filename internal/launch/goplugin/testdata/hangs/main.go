// A plugin whose init function does not return before the file
// $GOPLUGIN_TEST_LEAVE exists.
package main

import (
	"os"
	"time"

	"github.com/gopcp/pmcd/agents"
)

func init() {
	for _, err := os.Stat(os.Getenv("GOPLUGIN_TEST_LEAVE")); err != nil; _, err = os.Stat(os.Getenv("GOPLUGIN_TEST_LEAVE")) {
		time.Sleep(time.Millisecond)
	}
}

func NewAgent(int) (agents.Agent, error) { return nil, nil }

func main() {}
