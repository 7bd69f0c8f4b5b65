package root

import (
	"bytes"
	"cmp"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
)

// recorded returns the files in a file of testdata: those of a host with containers.
func recorded(t *testing.T, path string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name := regexp.MustCompile(`(?m)^-- (\S+) --\n`)
	at := name.FindAllSubmatchIndex(b, -1)
	files := make(map[string]string)
	for i, m := range at {
		end := len(b)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		text := string(b[m[1]:end])
		switch {
		case strings.HasPrefix(text, "-> "):
			text = strings.TrimSpace(text)
		case strings.Contains(text, "^@"):
			text = strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "^@", "\x00")
		}
		files[string(b[m[2]:m[3]])] = text
	}
	if len(files) == 0 {
		t.Fatalf("%s has no files", path)
	}
	return files
}

// The containers of a real Podman are found, with control groups of both versions, and with
// those of a user that have none.
func TestPodman(t *testing.T) {
	type row struct {
		name, hostname, state string
		hasGroup              bool
	}
	of := []row{
		{"halt", "", "stopped", false},
		{"pau", "ID", "paused", true},
		{"vol", "ID", "running", true}, // podman run --rm
		{"web", "inside", "running", true},
	}
	for path, want := range map[string][]row{
		"testdata/podman-cgroup1.txt": of,
		"testdata/podman-cgroup2.txt": append([]row{{"mine", "joes", "running", false}}, of...),
	} {
		t.Run(path, func(t *testing.T) {
			h := newHarness(t, recorded(t, path))
			list := slices.Clone(h.table.containers())
			slices.SortFunc(list, func(a, b *container) int { return cmp.Compare(a.name, b.name) })
			slices.SortFunc(want, func(a, b row) int { return cmp.Compare(a.name, b.name) })
			if len(list) != len(want) {
				t.Fatalf("%d containers, want %d", len(list), len(want))
			}
			for i, c := range list {
				w := want[i]
				if c.name != w.name || c.engine != podman || !cgroups.IsID(c.id) || c.ofUser != (w.name == "mine") {
					t.Errorf("%q of %s with the id %q, of a user: %v; want %q", c.name, c.engine, c.id, c.ofUser, w.name)
				}
				if state := []string{"stopped", "running", "paused", "restarting"}[c.state]; state != w.state || (c.pid > 0) != (w.state != "stopped") {
					t.Errorf("%s is %s, process %d, want %s", w.name, state, c.pid, w.state)
				}
				// cgroupfs of Podman and not systemd.
				group := "/libpod_parent/libpod-" + c.id
				if !w.hasGroup {
					group = "/libpod-" + c.id + ".scope"
				}
				if c.cgroup != group {
					t.Errorf("%s has the group %s, want %s", w.name, c.cgroup, group)
				}
				for _, name := range []string{c.name, c.id, c.id[:minPrefix]} {
					if found := h.table.find(name); found == nil || found.id != c.id {
						t.Errorf("%s: found %v", name, found)
					}
				}
				if c.pid <= 0 {
					continue
				}
				hostname := w.hostname
				if hostname == "ID" {
					hostname = c.id[:12]
				}
				if got, err := h.table.hostName(c, c.pid); err != nil || got != hostname {
					t.Errorf("the host name of %s is %q, %v, want %q", w.name, got, err, hostname)
				}
			}
			h.CheckAgent()
			if h.log.Len() > 0 {
				t.Errorf("log: %s", &h.log)
			}
		})
	}
}

// Whatever the kernel says of processes and control groups, which have names that users choose.
func FuzzProc(f *testing.F) {
	f.Add("Name:\tx\nPPid:\t20\nUid:\t1000\t0\t0\t0\nNSpid:\t100\t1\n", "1:name=systemd:/docker/"+idA+"\n0::/\n", "100\n101\n", "100 101")
	f.Add("PPid:\nNSpid:\t-1\t99999999999999999999\n", "::", "x\n-5\n7", "0 -1")
	p := newProcfs(f.TempDir())
	dir := p.path(100, "")
	if err := os.MkdirAll(dir+"/task/100", 0o777); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, status, group, procs, children string) {
		for name, text := range map[string]string{"status": status, "cgroup": group, "cgroup.procs": procs, "task/100/children": children} {
			if err := os.WriteFile(dir+"/"+name, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		p.status(100)
		for _, path := range p.groupsOf(100) {
			if strings.ContainsAny(path, "\n") {
				t.Errorf("the group %q", path)
			}
		}
		pids := procsBelow(dir)
		for _, pid := range pids {
			if pid <= 0 {
				t.Errorf("process %d", pid)
			}
		}
		if first := p.first(pids); first != 0 && !slices.Contains(pids, first) {
			t.Errorf("process %d is none of %v", first, pids)
		}
		if pid := p.child(100); pid != 0 && !bytes.Contains([]byte(children), []byte("100")) {
			t.Errorf("process %d is none of %q", pid, children)
		}
	})
}
