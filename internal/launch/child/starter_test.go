package child

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// The children of a Starter end when its process ends, also when it is killed, and
// whether or not the thread that called Start still exists.
func TestStarterEnds(t *testing.T) {
	if os.Getenv("CHILD_TEST_STARTER") != "" {
		s := NewStarter(nil)
		for range 3 {
			p, err := s.Start(Spec{Argv: []string{"sleep", "600"}, Stderr: os.Stderr})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println(p.PID())
		}
		select {}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "-test.run=^TestStarterEnds$")
	cmd.Env = append(os.Environ(), "CHILD_TEST_STARTER=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for lines := bufio.NewScanner(out); len(pids) < 3 && lines.Scan(); {
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, pid)
	}
	if len(pids) != 3 {
		t.Fatalf("started %v", pids)
	}
	cmd.Process.Kill()
	cmd.Wait()
	for _, pid := range pids {
		testutil.WaitEnded(t, pid)
	}
}

// The function around is called for each start, and the child is started in it.
func TestStarterAround(t *testing.T) {
	var steps []string
	s := NewStarter(func(start func()) {
		steps = append(steps, "before")
		start()
		steps = append(steps, "after")
	})
	p, err := s.Start(Spec{Argv: []string{"true"}, Stderr: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	p.Stop(t.Context())
	if _, err := s.Start(Spec{Argv: []string{"/no/such/program"}, Stderr: os.Stderr}); err == nil {
		t.Error("a program that does not exist was started")
	}
	s.Close()
	if _, err := s.Start(Spec{Argv: []string{"true"}, Stderr: os.Stderr}); err == nil {
		t.Error("a program was started after Close")
	}
	if got := strings.Join(steps, " "); got != "before after before after" {
		t.Errorf("got %s", got)
	}
}
