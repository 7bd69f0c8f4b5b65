package jbd2

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
)

// info has the format of Linux 3 and later.
const info = `12 transactions (7 requested), each up to 8192 blocks
average: 
  1ms waiting for transaction
  2ms request delay
  3ms running transaction
  4ms transaction was being locked
  5ms flushing data (in ordered mode)
  6ms logging transaction
  1234567us average transaction commit time
  8 handles per transaction
  9 blocks per transaction
  10 logged blocks per transaction
`

// older has the format of Linux 2.6.
const older = `3 transaction, each up to 2048 blocks
average: 
  1ms waiting for transaction
  3ms running transaction
  9 blocks per transaction
`

// A harness is an agent that reads a tree of files, and a client of the agent.
type harness struct {
	*pmdatest.Harness
	host *host
}

func newHarness(tb testing.TB, dir string) *harness {
	tb.Helper()
	h := newHost(122, Options{Dir: dir, CacheDir: tb.TempDir()})
	a, err := h.agent()
	if err != nil {
		tb.Fatal(err)
	}
	return &harness{pmdatest.New(tb, 122, a, newHost(122, Options{}).metrics()), h}
}

func TestDescribed(t *testing.T) {
	r := newHarness(t, t.TempDir())
	r.CheckNamesAndHelp("../../../etc/root", r.Agent)
}

func TestAgent(t *testing.T) {
	r := newHarness(t, pmdatest.Tree(t, map[string]string{"vda1-8/info": info}))
	r.CheckAgent()
}

func TestJournals(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"a/info": info, "b/info": older, "c/info": "12 transactions (7 requested), each up to 8192 blocks\n",
		"d/info": strings.Replace(info, "12", "x", 1), "e/": "", ".f/info": info, "g": "",
	})
	r := newHarness(t, root)
	for range 2 {
		r.Want(map[string]string{"jbd2.njournals": "2"})
		each := map[string][2]string{ // of a and b
			"count": {"12", "3"}, "requested": {"7", ""}, "max_blocks": {"8192", "2048"},
			"total.time.waiting": {"12", "3"}, "total.time.request_delay": {"14", ""}, "total.time.running": {"36", "9"},
			"total.time.being_locked": {"48", "0"}, "total.time.flushing_ordered_mode_data": {"60", "0"}, "total.time.logging": {"72", "0"},
			"total.handles": {"96", "0"}, "total.blocks": {"108", "27"}, "total.blocks_logged": {"120", "0"},
			"average.time.waiting": {"1", "1"}, "average.time.request_delay": {"2", ""}, "average.time.running": {"3", "3"},
			"average.time.being_locked": {"4", "0"}, "average.time.flushing_ordered_mode_data": {"5", "0"}, "average.time.logging": {"6", "0"},
			"average.time.committing": {"1234567", "0"}, "average.handles": {"8", "0"}, "average.blocks": {"9", "9"}, "average.blocks_logged": {"10", "0"},
		}
		for name, want := range each {
			t.Run(name, func(t *testing.T) {
				got := " " + r.Values("jbd2.transaction."+name) + " "
				for i, inst := range []string{"a", "b"} {
					if want[i] != "" && !strings.Contains(got, " "+inst+"="+want[i]+" ") || want[i] == "" && strings.Contains(got, " "+inst+"=") {
						t.Errorf("%s has%s, of %s want %q", name, got, inst, want[i])
					}
				}
			})
		}
		if len(each) != len(r.Metrics)-1 {
			t.Errorf("%d of %d metrics", len(each), len(r.Metrics))
		}
	}
	pmdatest.WriteFile(t, root, "b/info", "")
	r.Want(map[string]string{"jbd2.njournals": "1", "jbd2.transaction.count": "a=12"})
}

// A file of ids that cannot be read is not overwritten, and is read again later.
func TestIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const saved = "2 0 2147483647\n4 1700000000 vda1-8\n"
		dir := t.TempDir()
		pmdatest.WriteFile(t, dir, "elsewhere", saved)
		ids := filepath.Join(dir, "122.0")
		if err := os.Symlink("elsewhere", ids); err != nil { // not even root reads a symbolic link
			t.Fatal(err)
		}
		root := pmdatest.Tree(t, map[string]string{"vdb1-8/info": info})
		var log bytes.Buffer
		h := newHost(122, Options{
			Dir: root, CacheDir: dir,
			Log: slog.New(serve.NewHandler(&log, "pmda", slog.LevelInfo)),
		})
		list := func() (got string) {
			if err := h.findJournals(t.Context(), nil); err != nil {
				t.Error(err)
			}
			h.instances.Each(func(id int32, name string, _ any) bool {
				got += fmt.Sprintf("%d=%s ", id, name)
				return true
			})
			return got
		}
		for range 3 {
			if got := list(); got != "1073741824=vdb1-8 " {
				t.Errorf("not read: %s", got)
			}
			time.Sleep(2 * time.Second)
		}
		if link, err := os.Readlink(ids); link != "elsewhere" || err != nil {
			t.Fatalf("overwritten: %q, %v", link, err)
		}
		if err := os.Rename(filepath.Join(dir, "elsewhere"), ids); err != nil {
			t.Fatal(err)
		}
		pmdatest.WriteFile(t, root, "vda1-8/info", info)
		if got := list(); got != "4=vda1-8 5=vdb1-8 " {
			t.Errorf("read: %s", got)
		}
		if got := strings.Count(log.String(), "\n"); got != 1 {
			t.Errorf("%d lines in the log:\n%s", got, &log)
		}
	})
}

// Parsing does not depend on a newline at the end of the file.
func FuzzJournal(f *testing.F) {
	f.Add(info)
	f.Add(older)
	f.Add("1 transactions (2 requested), each up to 3 blocks\naverage:\n99999999999999999999 handles per transaction\nms request delay\n")
	f.Fuzz(func(t *testing.T, text string) {
		var j, again journal
		ok := j.parse([]byte(text))
		if again.parse([]byte(text+"\n")) != ok || ok && j != again {
			t.Errorf("%q is %+v, %v, with a newline %+v", text, j, ok, again)
		}
		if !ok && strings.HasPrefix(text, info) {
			t.Errorf("%q is not accepted", text)
		}
	})
}
