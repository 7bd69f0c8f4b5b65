package event

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// libpcp builds testdata/queue.c and returns a function that runs a script with it, as
// runScript does with a Queue.
func libpcp(t *testing.T) func(script []string) []string {
	t.Helper()
	testutil.NeedPeer(t, "/usr/include/pcp/pmda.h")
	prog := filepath.Join(t.TempDir(), "queue")
	if out, err := exec.Command("cc", "-o", prog, "testdata/queue.c", "-lpcp_pmda", "-lpcp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return func(script []string) []string {
		t.Helper()
		cmd := exec.Command(prog)
		cmd.Stdin = strings.NewReader(strings.Join(script, "\n") + "\n")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
		if len(got) != len(script) {
			t.Fatalf("%d lines for %d:\n%s", len(got), len(script), out)
		}
		return got
	}
}

// inStepScript returns a random script in which libpcp_pmda behaves as documented:
// clients start and end when no events are queued, and each client reads once after
// events were appended.
func inStepScript(seed uint64) []string {
	r := rand.New(rand.NewPCG(seed, 1))
	size := 10 + r.IntN(300)
	var script []string
	add := func(format string, args ...any) {
		script = append(script, fmt.Sprintf(format, args...))
		if r.IntN(4) == 0 {
			script = append(script, "stats")
		}
	}
	permit := func(id int) {
		switch r.IntN(5) {
		case 0:
			add("filter %d %d", id, r.IntN(size))
		case 1:
			add("unfilter %d", id)
		case 2:
			add("allow %d 0", id)
		default:
			add("allow %d 1", id)
		}
	}
	add("queue %d", size)
	var active []int
	usec := 0
	for range 40 {
		switch id := r.IntN(6); {
		case !slices.Contains(active, id):
			if r.IntN(3) > 0 {
				permit(id)
			}
			add("records %d", id)
			active = append(active, id)
		case r.IntN(2) == 0:
			add("end %d", id)
			active = slices.DeleteFunc(active, func(a int) bool { return a == id })
		}
		for range r.IntN(8) {
			n := 1 + r.IntN(size/2)
			if r.IntN(20) == 0 {
				n = size + r.IntN(3)
			}
			usec += r.IntN(300000)
			add("append %d %d %s", 1000+usec/1000000, usec%1000000,
				fmt.Sprint(r.IntN(5))+strings.Repeat("x", n-1))
		}
		r.Shuffle(len(active), func(i, j int) { active[i], active[j] = active[j], active[i] })
		for _, id := range active {
			if r.IntN(5) == 0 {
				permit(id)
			}
			add("records %d", id)
		}
	}
	script = append(script, "close")
	for _, id := range active {
		script = append(script, fmt.Sprintf("end %d", id))
	}
	return append(script, "append 1 1 late")
}

// withoutMissed removes the records of missed events, which libpcp_pmda never makes,
// from a line of records. n is their number.
func withoutMissed(line string) (_ string, n int) {
	words := strings.Split(line, " ")
	all := len(words)
	words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "missed:") })
	return strings.Join(words, " "), all - len(words)
}

// If all clients read in step, results are those of libpcp_pmda.
func TestPeerInStep(t *testing.T) {
	peer := libpcp(t)
	missed, records := 0, 0
	for seed := range uint64(60) {
		script := inStepScript(seed)
		want := peer(script)
		got := runScript(t, script)
		for i := range script {
			line, n := withoutMissed(got[i])
			missed += n
			records += strings.Count(line, "/1,")
			if line != want[i] {
				t.Fatalf("seed %d, line %d:\n%s\n got %s\nwant %s", seed, i,
					strings.Join(script[:i+1], "\n"), line, want[i])
			}
		}
	}
	if missed == 0 || records < 1000 {
		t.Errorf("only %d records and %d missed events", records, missed)
	}
}

// These are the differences from libpcp_pmda that the package comment lists.
func TestPeerDiffers(t *testing.T) {
	peer := libpcp(t)
	for _, tt := range []struct{ name, script, theirs, ours string }{
		{
			"a client gets events again that others have not read, and others never get them",
			"queue 9; allow 1 1; allow 2 1; records 1; records 2; append 1 5 a; records 1; records 1; records 2",
			"records; records; records a; records a; records",
			"records; records; records a; records; records a",
		},
		{
			"a new client gets the events of others",
			"queue 9; allow 1 1; allow 2 1; records 1; append 1 5 a; records 2; records 1",
			"records; records a; records",
			"records; records; records a",
		},
		{
			"events for a client stay after its end",
			"queue 9; allow 1 1; allow 2 1; records 1; append 1 5 a; end 1; stats; records 2",
			"records; stats 1 1 0 1; records a",
			"records; stats 1 1 0 0; records",
		},
		{
			"there is no record of missed events",
			"queue 2; allow 1 1; records 1; append 1 5 a; append 1 5 b; append 1 5 c; append 1 5 d; records 1",
			"records; records c d",
			"records; records missed:2 c d",
		},
		{
			"a closed queue accepts events while it has clients",
			"queue 9; allow 1 1; records 1; append 1 5 a; close; append 1 5 b; records 1; end 1",
			"records; records a b",
			"records; error; records a",
		},
	} {
		for name, impl := range map[string]struct {
			got  []string
			want string
		}{
			"libpcp_pmda": {peer(lines(tt.script)), tt.theirs},
			"Queue":       {runScript(t, lines(tt.script)), tt.ours},
		} {
			got := slices.DeleteFunc(impl.got, func(s string) bool { return s == "ok" })
			want := lines(impl.want)
			for i := range want {
				want[i] = expand(want[i])
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s:\n got %q\nwant %q", tt.name, name, got, want)
			}
		}
	}
}
