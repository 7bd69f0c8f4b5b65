package peertest

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// A badLine is a dso line that starts no agent, and what the log says of it.
type badLine struct {
	name  string
	entry string
	path  string
	want  string // for {path}: the path
}

// badLines makes the files for all that can be wrong with a dso line.
func (f *faults) badLines(race []string) []badLine {
	fifo := f.path("fifo.so")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		f.t.Fatal(err)
	}
	whole, object := f.read(f.plugin), f.read(f.object)
	other := slices.Clone(object)
	other[18] = 3 // e_machine: EM_386
	var flags []string
	differ := "no -race, pmcd with -race=true"
	if race == nil {
		flags, differ = []string{"-race"}, "-race=true, pmcd with no -race"
	}
	testdata := "../../../../internal/launch/goplugin/testdata/"
	const cut = "{path} is not a shared object: not an ELF file, or a truncated one"
	return []badLine{
		{"missing", "missing_init", f.path("none.so"), "cannot find the DSO: stat {path}: no such file or directory"},
		{"directory", "simple_init", f.dir, "{path} is not a shared object but a directory"},
		{"fifo", "simple_init", fifo, "{path} is not a shared object but a special file"},
		{"empty", "simple_init", f.write("empty.so", nil), cut},
		{"garbage", "simple_init", f.write("garbage.so", bytes.Repeat([]byte("garbage\n"), 1e4)), "{path} is not a shared object: not an ELF file"},
		{"cut object", "simple_init", f.write("cut.so", object[:len(object)/2]), cut},
		{"cut plugin", "good_init", f.write("cutgo.so", whole[:len(whole)/2]), cut},
		{"other machine", "simple_init", f.write("machine.so", other), "{path} is not a shared object for this machine: it is for EM_386"},
		{"object for a plugin", "NewAgent", f.object, "{path} has no function NewAgent"},
		{"other flags", "good_init", f.build("flags.so", "./testdata/faulty", flags...), "{path} is built with " + differ},
		{"trimpath", "good_init", f.build("trim.so", "./testdata/faulty", append(race, "-trimpath")...), "{path} is built with -trimpath=true, pmcd with no -trimpath"},
		{"no entry", "no_such_init", f.plugin, "{path} has no function NoSuchInit or NewAgent"},
		{"other entry", "other_init", f.plugin, "{path}: OtherInit is a func(), not a func(int) (agents.Agent, error)"},
		{"entry fails", "fails_init", f.plugin, "{path}: FailsInit: open /no/such/device: no such file or directory"},
		{"entry without agent", "none_init", f.plugin, "{path}: NoneInit: returned neither an agent nor an error"},
		{"entry panics", "panics_init", f.plugin, "{path}: PanicsInit: panicked: no device"},
		{"entry hangs", "stuck_init", f.plugin, "{path}: StuckInit has not returned in time"},
		{"init panics", "new_agent", f.build("panics.so", testdata+"panics", race...), "{path}: its init functions: panicked: no licence"},
		{"init hangs", "new_agent", f.build("hangs.so", testdata+"hangs", race...), "{path}: its init functions have not returned in time"},
	}
}

// TestFaults does to agents all that one can think of, one after the other in
// one daemon: the others answer as ever, and the log says what to do about it.
func TestFaults(t *testing.T) {
	f := startFaults(t)
	id := pdu.NewPMID
	good := []pdu.PMID{id(2, 0, 11), id(253, 0, 1), id(254, 0, 1), id(400, 0, 1)}
	// check fetches what good agents have and, in the same request, another
	// metric, until that is as it should be; the others are that at any time.
	check := func(t *testing.T, want string, bad pdu.PMID) {
		t.Helper()
		const well = "20 [3 values] [3 values] 400 "
		var got string
		peer.Until(peer.Hangs, func() bool {
			got = f.fetch(t, append(good, bad)...)
			return got == well+want || !strings.HasPrefix(got, well)
		})
		if got != well+want {
			t.Errorf("fetched %s, want %s%s", got, well, want)
		}
	}
	for i, b := range f.bad {
		t.Run(b.name, func(t *testing.T) {
			check(t, "PM_ERR_NOAGENT", id(410+i, 0, 1))
			head := fmt.Sprintf("cannot start %q agent (dom %d): ", b.name, 410+i)
			f.says(t, head, 1, head+strings.ReplaceAll(b.want, "{path}", b.path))
		})
	}

	t.Run("waits", func(t *testing.T) {
		testutil.NeedRoot(t) // to change the timeout
		store := func(timeout string) {
			t.Helper()
			if o, err := f.d.Run(t.Context(), peer.Unix, words("pmstore -h {host} pmcd.control.timeout "+timeout)); err != nil || o.Code != 0 {
				t.Fatal(err, o)
			}
		}
		store("0") // never: requests for this agent wait until the end
		f.sendFetch(t, id(404, 0, 4))
		f.says(t, "agent 404 blocks", 1, "")
		check(t, "401", id(401, 0, 1))
		store("3")
	})

	kill := func(agent string, sig syscall.Signal) {
		if err := syscall.Kill(hostOf(t, f.d, agent, 0), sig); err != nil {
			t.Fatal(err)
		}
	}
	meet := func(fault pdu.PMID, want string) func(*testing.T) {
		return func(t *testing.T) { check(t, want, fault) }
	}
	// One after the other: what hangs hangs until the end.
	for _, tt := range []struct {
		name   string
		metric pdu.PMID
		value  string // before
		do     func(*testing.T)
		want   string // afterwards
		log    string
	}{
		{
			"segv", id(29, 0, 10), "1", func(*testing.T) { kill("segv", syscall.SIGSEGV) }, "PM_ERR_NOAGENT",
			`the process was ended by signal 11 (SIGSEGV): an error in the agent, such as an invalid pointer`,
		},
		{
			"bus", id(252, 0, 1), "[3 values]", func(*testing.T) { kill("bus", syscall.SIGBUS) }, "PM_ERR_NOAGENT",
			`the process was ended by signal 7 (SIGBUS): a file that it maps, such as its program, is too short: install it again`,
		},
		{
			"panics", id(401, 0, 1), "401", meet(id(401, 0, 2), "PM_ERR_IPC"), "PM_ERR_NOAGENT",
			`is down: agent panicked: assignment to entry in nil map`,
		},
		{
			"blocks", id(402, 0, 1), "402", meet(id(402, 0, 4), "PM_ERR_AGAIN"), "PM_ERR_AGAIN",
			`is late, calls abandoned so far: 1`,
		},
		{
			"loops", id(403, 0, 1), "403", meet(id(403, 0, 3), "PM_ERR_AGAIN"), "PM_ERR_AGAIN",
			`is late, calls abandoned so far: 1`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			check(t, tt.value, tt.metric)
			tt.do(t)
			check(t, tt.want, tt.metric)
			head := fmt.Sprintf("agent %q (dom %d) is ", tt.name, tt.metric.Domain())
			f.says(t, head, 1, tt.log)
		})
	}

	t.Run("SIGHUP", func(t *testing.T) {
		f.hangup(t)
		check(t, "1", id(29, 0, 10))
		check(t, "[3 values]", id(252, 0, 1))
		check(t, "401", id(401, 0, 1))
		check(t, "PM_ERR_AGAIN", id(403, 0, 1))
		f.says(t, " has changed ", 0, "")
	})
	t.Run("files change", func(t *testing.T) {
		host := hostOf(t, f.d, "bus", 0)
		for _, path := range []string{f.plugin, f.object} {
			if err := os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)); err != nil {
				t.Fatal(err)
			}
		}
		old := f.plugin + " has changed since pmcd loaded it, and code can be loaded only once: restart pmcd to use it"
		for range 2 { // the second time is no news
			f.hangup(t)
			f.says(t, "Warning: "+f.plugin+" has changed ", 1, old)
			f.says(t, f.object+" has changed ", 1, fmt.Sprintf(`%s has changed since agent "bus" (dom 252) loaded it: to use it, kill -KILL %d and send pmcd SIGHUP again`, f.object, host))
			check(t, "401", id(401, 0, 1))
		}
		kill("bus", syscall.SIGKILL)
		check(t, "PM_ERR_NOAGENT", id(252, 0, 1))
		f.says(t, `agent "bus" (dom 252) is down: `, 2, "")
		check(t, "PM_ERR_IPC", id(401, 0, 2))
		check(t, "PM_ERR_NOAGENT", id(401, 0, 1))
		f.hangup(t)
		check(t, "[3 values]", id(252, 0, 1))
		check(t, "PM_ERR_NOAGENT", id(401, 0, 1))
		f.says(t, f.object+" has changed ", 1, "")
		f.says(t, `cannot start "panics" agent (dom 401): `, 1, `cannot start "panics" agent (dom 401): `+old)
	})
}
