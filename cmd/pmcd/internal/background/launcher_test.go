package background

import (
	"os"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A variable that some other process has left does not make a daemon.
func TestNoLauncher(t *testing.T) {
	t.Setenv(parentVar, "1")
	if os.Getppid() == 1 {
		testutil.Missing(t, "a child of process 1")
	}
	if l, err := FindLauncher(); l != nil || err != nil {
		t.Errorf("got %v, %v", l, err)
	}
	if _, ok := os.LookupEnv(parentVar); ok {
		t.Error("agents would have it")
	}
	var none *Launcher
	none.serving() // does nothing
	none.failed("for no reason")
}
