package testutil

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Unshare starts a shell in name spaces of its own, those that options of unshare(1) name, and
// with env added to the environment. The script prints "ready" when it is set up, and then
// reads from its standard input, which ends with the test. Without the rights for the name
// spaces, or a program that the script needs, the test ends as Missing says.
func Unshare(t testing.TB, options []string, script string, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("unshare", append(options, "sh", "-c", script)...)
	cmd.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		Missing(t, err)
	}
	ended := false
	end := func() {
		if !ended {
			ended = true
			stdin.Close()
			cmd.Wait()
		}
	}
	t.Cleanup(end)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		end() // stderr is complete
		Missing(t, "unshare ", options, ": ", line, err, " ", stderr.String())
	}
	return cmd
}
