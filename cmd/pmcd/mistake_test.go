package main

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// A service that cannot start before an admin has changed its configuration has an exit code of
// its own, in the background, too. What may go away has another one.
func TestMistakeCode(t *testing.T) {
	p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
	for name, text := range map[string]string{
		"no agents": "# pmcd 2 dso pmcd_init /none\n",
		"bad":       "pmcd 2 dso pmcd_init /none\nb x\n",
		"unknown":   "pmcd 2 dso pmcd_init /none\n[access]\nallow user nosuchuser: all;\n",
		"bad names": "root { pmcd\n",
	} {
		p.Write(name, text)
	}
	if err := syscall.Mkfifo(p.At("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", p.At("notify"))
	pmcdtest.NewManager(t, p.At("notify"))
	for args, want := range map[string]int{
		"-F -c none":        cli.ExitMistake,
		"-F -c 'no agents'": cli.ExitMistake,
		"-F -c bad":         cli.ExitMistake,
		"-c bad":            cli.ExitMistake,
		"-F -n none":        cli.ExitMistake,
		"-F -n 'bad names'": cli.ExitMistake,
		"-n none":           cli.ExitMistake,
		"-F -c fifo":        cli.ExitError,
		"-F -c unknown":     cli.ExitError, // the host may know the user later
		"-F -U nosuchuser":  cli.ExitError,
	} {
		var list []string
		for i, word := range strings.Split(args, "'") {
			if i%2 == 1 {
				list = append(list, word)
			} else {
				list = append(list, strings.Fields(word)...)
			}
		}
		if code, stderr := p.Run(append([]string{"-U", pmcdtest.User()}, list...)...); code != want {
			t.Errorf("%s: exit code %d, want %d\n%s%s", args, code, want, stderr, pmcdtest.Read(p.At("log/pmcd.log")))
		}
	}
	os.Unsetenv("NOTIFY_SOCKET")
	if code, _ := p.Run("-f", "-c", "bad"); code != cli.ExitError {
		t.Errorf("without a service manager: exit code %d", code)
	}
}
