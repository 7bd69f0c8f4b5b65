package proc

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

// A harness is an agent that reads a tree of files, and a client of the agent.
type harness struct {
	*pmdatest.Harness
	host *host
}

// newHarness returns an agent whose client is the user of the test.
func newHarness(tb testing.TB, o Options) *harness {
	tb.Helper()
	if o.AccessConf == "" {
		o.AccessConf = filepath.Join(tb.TempDir(), "none")
	}
	if o.HotConf == "" {
		o.HotConf = filepath.Join(tb.TempDir(), "none")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	h := newHost(3, o)
	a, err := h.agent("") // parsing the help texts takes time
	if err != nil {
		tb.Fatal(err)
	}
	r := &harness{pmdatest.New(tb, 3, a, newHost(3, o).metrics()), h}
	r.ByID = []int{indomProc, indomHot}
	r.setUser(os.Geteuid(), os.Getegid())
	return r
}

// setUser replaces the client by one of this user and group.
func (r *harness) setUser(uid, gid int) {
	r.setAttrs(map[pdu.AttrCode]string{pdu.AttrUserID: strconv.Itoa(uid), pdu.AttrGroupID: strconv.Itoa(gid)})
}

// setAttrs replaces the client by one with these attributes.
func (r *harness) setAttrs(values map[pdu.AttrCode]string) {
	var attrs []pdu.Attr
	for code, value := range values {
		attrs = append(attrs, pdu.Attr{Code: code, Value: []byte(value)})
	}
	r.NewClient(attrs...)
}

// opened returns the files, below the root, that the agent opens while f runs.
func (r *harness) opened(f func()) (files []string) { return r.host.opened(f) }

func (t *tree) opened(f func()) (files []string) {
	t.Open = func(path string, flags int) (int, error) {
		files = append(files, strings.TrimPrefix(path, t.Root))
		return syscall.Open(path, flags|syscall.O_CLOEXEC, 0)
	}
	defer func() { t.Open = nil }()
	f()
	return files
}
