package pmcdtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
)

// ScriptName is the name under which the test program is an agent. Its arguments are a
// directory of its own and what it does, as in "exits in a fetch".
const ScriptName = "pmdascript"

// A scripted is an agent with metrics that are all 1. It calls do, unless it is nil,
// before it replies to a fetch.
type scripted struct{ do func() }

func (scripted) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	return pdu.Desc{PMID: id, ValueType: pdu.MetricU32, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

func (s scripted) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	if s.do != nil {
		s.do()
	}
	for _, id := range r.PMIDs {
		w.Begin(id)
		w.Word(-1, 1)
	}
	return nil
}

// playScript is the main program of the agent.
func playScript(dir, what string) {
	exit := func(code int) { fmt.Fprintln(os.Stderr, "it ends here"); os.Exit(code) }
	die := func(sig syscall.Signal) {
		syscall.Kill(os.Getpid(), sig)
		select {}
	}
	var a scripted
	switch what {
	case "exits at once":
		exit(3)
	case "exits after a second":
		time.AfterFunc(time.Second, func() { exit(4) })
	case "exits in a fetch":
		a.do = func() { exit(5) }
	case "is killed in a fetch":
		a.do = func() { die(syscall.SIGKILL) }
	case "is slow once":
		a.do = func() {
			if f, err := os.OpenFile(filepath.Join(dir, "slow"), os.O_CREATE|os.O_EXCL, 0o666); err == nil {
				f.Close()
				time.Sleep(800 * time.Millisecond)
			}
		}
	case "hangs":
		a.do = func() { select {} }
	case "ignores SIGTERM":
		signal.Ignore(syscall.SIGTERM)
		a.do = func() { select {} }
	case "leaves grandchildren":
		cmd := exec.Command("/bin/sh", "-c", "sleep 600; exit", dir)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		if err := cmd.Start(); err != nil {
			exit(1)
		}
		a.do = func() { exit(6) }
	case "chatters":
		go func() {
			line := []byte(strings.Repeat("chatter ", 12) + "\n")
			for {
				os.Stderr.Write(line)
			}
		}()
	}
	serve.Serve(context.Background(), a, struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout})
}

// Main is the TestMain of a package whose tests run the test program as pmcd, whose main
// function is pmcd, or as the agent ScriptName.
func Main(m *testing.M, pmcd func()) {
	if filepath.Base(os.Args[0]) == ScriptName {
		playScript(os.Args[1], os.Args[2])
		os.Exit(0)
	}
	if os.Getenv("PMCD_TEST_RUN") == "1" {
		pmcd()
	}
	syscall.Umask(0o022) // with 002 the files of the tests would not be trusted
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}
