package installed

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
)

// gopmda is an agent in Go. The test binary is its PMDA when it is run as
// pmdagopmda; the other files that an installation needs are in testdata.
type gopmda struct {
	domain  int
	args    string
	fetches uint32
}

func (a *gopmda) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	d := pdu.Desc{PMID: id, InDom: pdu.NoInDom, Sem: pdu.SemDiscrete, ValueType: pdu.MetricString}
	switch id {
	case pdu.NewPMID(a.domain, 0, 0):
	case pdu.NewPMID(a.domain, 0, 1):
		d.Sem, d.ValueType = pdu.SemCounter, pdu.MetricU32
	default:
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return d, nil
}

func (a *gopmda) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	a.fetches++
	for _, id := range r.PMIDs {
		switch id {
		case pdu.NewPMID(a.domain, 0, 0):
			w.Begin(id)
			w.String(-1, a.args)
		case pdu.NewPMID(a.domain, 0, 1):
			w.Begin(id)
			w.Word(-1, a.fetches)
		default:
			w.Fail(id, pdu.ErrnoPMID)
		}
	}
	return nil
}

// isPMDA reports whether this process is to be gopmda's.
func isPMDA() bool { return strings.HasPrefix(filepath.Base(os.Args[0]), "pmdagopmda") }

// servePMDA is its main function. What follows the options of PMDAs is for
// the metric gopmda.args alone.
func servePMDA() int {
	f := flag.NewFlagSet("pmdagopmda", flag.ExitOnError)
	domain := f.Int("d", 0, "domain")
	f.Parse(os.Args[1:])
	a := &gopmda{domain: *domain, args: strings.Join(os.Args[1:], " ")}
	pipes := struct {
		io.Reader
		io.WriteCloser
	}{os.Stdin, os.Stdout}
	// pmcd may close its ends while it waits for an answer.
	signal.Ignore(syscall.SIGPIPE)
	if err := serve.Serve(context.Background(), a, pipes); err != nil && !errors.Is(err, syscall.EPIPE) {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// addGopmda gives the machine a directory of PMDAs with an agent like gopmda,
// of another name and domain.
func addGopmda(t *testing.T, m *peer.Machine, name string, domain int) {
	t.Helper()
	files := map[string][]byte{"pmda" + name: peer.Must(os.ReadFile(peer.Must(os.Executable())(t)))(t)}
	for _, f := range []string{"domain.h", "root", "pmns", "help", "Install", "Remove"} {
		b := peer.Must(os.ReadFile(filepath.Join("testdata/gopmda", f)))(t)
		b = bytes.ReplaceAll(b, []byte("gopmda"), []byte(name))
		files[f] = bytes.ReplaceAll(b, []byte("GOPMDA 400"), fmt.Appendf(nil, "GOPMDA %d", domain))
	}
	writeAgent(t, m.Path(peer.PMDAs+name), files)
}

// writeAgent makes the directory of an agent.
func writeAgent(t *testing.T, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for f, b := range files {
		if err := os.WriteFile(filepath.Join(dir, f), b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}
