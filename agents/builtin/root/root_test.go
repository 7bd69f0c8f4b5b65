package root

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/testutil"
)

// The files and processes of the tests do not block.
func TestMain(m *testing.M) {
	guardTimeout = testutil.Hangs
	os.Exit(m.Run())
}

// Ids of containers.
var (
	idA = strings.Repeat("a1b2", 16)
	idB = "b000" + strings.Repeat("0", 60)
	idC = "c111" + strings.Repeat("1", 60)
	idD = "d222" + strings.Repeat("2", 60)
	idE = "e333" + strings.Repeat("3", 60)
	idF = "f444" + strings.Repeat("4", 60)
)

// A harness is an agent that reads a tree of files, and a client of the agent.
type harness struct {
	*pmdatest.Harness
	root  string
	table *table
	log   bytes.Buffer
}

// options returns the Options for the tree at root.
func options(root string) Options {
	o := Options{Docker: root + "/docker", PodmanData: root + "/data", PodmanRun: root + "/run", LXC: root + "/lxc",
		Containerd: root + "/containerd", Proc: root + "/proc", Cgroup: root + "/cgroup"}
	o.setDefaults()
	o.Log = slog.Default()
	return o
}

func newHarness(t *testing.T, files map[string]string) *harness {
	t.Helper()
	h := &harness{root: pmdatest.Tree(t, files)}
	o := options(h.root)
	o.Log = slog.New(serve.NewHandler(&h.log, "pmda", slog.LevelInfo))
	a, err := Open(1, o)
	if err != nil {
		t.Fatal(err)
	}
	h.table = newTable(o)
	h.Harness = pmdatest.New(t, 1, a, (&agent{table: h.table}).metrics())
	return h
}

// addProcess adds what /proc says about a process to files. inside is its id in its own name
// space; 0 if it has that of the host.
func addProcess(files map[string]string, pid, parent, inside int, more map[string]string) {
	dir := fmt.Sprintf("proc/%d/", pid)
	nspid := fmt.Sprint(pid)
	if inside > 0 {
		nspid += fmt.Sprint("\t", inside)
	}
	files[dir+"status"] = fmt.Sprintf("Name:\tx\nPPid:\t%d\nUid:\t0\t0\t0\t0\nNSpid:\t%s\n", parent, nspid)
	files[dir+"comm"] = "x\n"
	files[dir+"ns/uts"] = fmt.Sprintf("-> uts:[%d]", pid)
	for name, text := range more {
		files[dir+name] = text
	}
}

// composed returns a host with containers of all engines.
func composed() map[string]string {
	files := map[string]string{
		// Docker: one that runs, one that has ended, one whose configuration is damaged.
		"docker/containers/" + idA + "/config.v2.json":   `{"Name":"/web","Config":{"Hostname":"webhost"},"State":{"Running":true,"Paused":false,"Restarting":false,"Pid":100}}`,
		"docker/containers/" + idB + "/config.json":      `{"Name":"/ended","State":{"Running":false,"Pid":0}}`,
		"docker/containers/" + idC + "/config.v2.json":   `{"Name":`,
		"docker/containers/.hidden/config.v2.json":       `{"Name":"/hidden"}`,
		"cgroup/unified/docker/" + idA + "/cgroup.procs": "101\n100\n",
		// Podman and CRI-O.
		"data/containers.json":                                                         `[{"id":"` + idD + `","names":["old","pod"]},{"id":"` + idE + `","names":["k8s_c_p_n"]}]`,
		"data/" + idD + "/userdata/config.json":                                        `{"hostname":"podhost","annotations":{"x":"y"}}`,
		"run/" + idD + "/userdata/pidfile":                                             "200",
		"run/" + idE + "/userdata/pidfile":                                             "9999\n",
		"cgroup/unified/machine.slice/libpod-" + idD + ".scope/container/cgroup.procs": "200\n",
		"cgroup/unified/machine.slice/libpod-" + idD + ".scope/cgroup.events":          "populated 1\nfrozen 1\n",
		"cgroup/unified/kubepods.slice/crio-" + idE + ".scope/cgroup.procs":            "301\n300\n",
		// LXC.
		"lxc/box/config":       "",
		"lxc/off/config":       "",
		"lxc/lxc-monitord.log": "",
		"cgroup/unified/lxc.payload.box/cgroup.procs": "400\n",
		// containerd, which has no list.
		"cgroup/unified/kubepods.slice/cri-containerd-" + idF + ".scope/cgroup.procs": "500\n",
		"containerd/io.containerd.runtime.v2.task/k8s.io/" + idF + "/config.json": `{"hostname":"","annotations":{"io.kubernetes.cri.container-name":"app",` +
			`"io.kubernetes.cri.container-type":"container","io.kubernetes.cri.sandbox-name":"pod-1","io.kubernetes.cri.sandbox-namespace":"default"}}`,
		"proc/self/": "",
	}
	addProcess(files, 100, 10, 1, nil)
	addProcess(files, 101, 100, 7, nil)
	addProcess(files, 200, 20, 1, nil)
	addProcess(files, 300, 30, 1, nil)
	addProcess(files, 301, 300, 2, nil)
	addProcess(files, 400, 40, 1, nil)
	addProcess(files, 500, 50, 1, nil)
	return files
}

func TestDescribed(t *testing.T) {
	h := newHarness(t, composed())
	h.CheckNamesAndHelp("../../../etc/root", h.Agent)
}

func TestAgent(t *testing.T) {
	newHarness(t, composed()).CheckAgent()
}

func TestValues(t *testing.T) {
	h := newHarness(t, composed())
	var got []string
	for _, i := range h.Instances(0) {
		got = append(got, i.Name)
	}
	// Docker's are in the order of the directory.
	if len(got) != 8 || got[0] != idD || got[1] != idE || got[7] != idF {
		t.Errorf("instances %q", got)
	}
	value := func(metric, id string) string {
		t.Helper()
		for v := range strings.FieldsSeq(h.Values("containers." + metric)) {
			if v, ok := strings.CutPrefix(v, id+"="); ok {
				return v
			}
		}
		return "none"
	}
	for _, tt := range []struct{ id, engine, name, pid, state, cgroup string }{
		{idA, "docker", "web", "100", "running", "/docker/" + idA},
		{idB, "docker", "ended", "none", "", "none"},
		{idC, "docker", "?", "none", "", "none"},
		{idD, "podman", "pod", "200", "paused", "/machine.slice/libpod-" + idD + ".scope"},
		{idE, "cri-o", "k8s_c_p_n", "300", "running", "/kubepods.slice/crio-" + idE + ".scope"},
		{"box", "lxc", "box", "400", "running", "/lxc.payload.box"},
		{"off", "lxc", "off", "none", "", "none"},
		{idF, "containerd", "k8s_app_pod-1_default", "500", "running", "/kubepods.slice/cri-containerd-" + idF + ".scope"},
	} {
		for metric, want := range map[string]string{"engine": tt.engine, "name": tt.name, "pid": tt.pid, "cgroup": tt.cgroup} {
			if got := value(metric, tt.id); got != want {
				t.Errorf("%s of %.4s: got %s, want %s", metric, tt.id, got, want)
			}
		}
		for _, s := range []string{"running", "paused", "restarting"} {
			want := "0"
			if s == tt.state {
				want = "1"
			}
			if got := value("state."+s, tt.id); got != want {
				t.Errorf("state.%s of %.4s: got %s, want %s", s, tt.id, got, want)
			}
		}
	}
	if text := h.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, idC) {
		t.Errorf("log: %s", text)
	}
}

// LXC has another group for a container if one of its name is left over.
func TestGroupsOfLXC(t *testing.T) {
	files := map[string]string{
		"lxc/box/config": "", "lxc/off/config": "", "lxc/web/config": "", "lxc/web-1/config": "",
		"cgroup/unified/lxc.payload.box/cgroup.procs":   "",
		"cgroup/unified/lxc.payload.box-1/cgroup.procs": "",
		"cgroup/unified/lxc.payload.box-2/cgroup.procs": "400\n",
		"cgroup/unified/lxc.payload.off-1/cgroup.procs": "500\n", // of no store
		"cgroup/unified/lxc.payload.web/cgroup.procs":   "",
		"cgroup/unified/lxc.payload.web-1/cgroup.procs": "600\n", // another container
	}
	for pid := 400; pid <= 600; pid += 100 {
		addProcess(files, pid, pid/10, 1, nil)
	}
	files["proc/401/cgroup"] = "0::/lxc.payload.box-2/x\n"
	table := newTable(options(pmdatest.Tree(t, files)))
	var got []string
	for _, c := range table.containers() {
		got = append(got, fmt.Sprint(c.id, " ", c.pid, " ", c.cgroup))
	}
	want := "box 400 /lxc.payload.box-2, off 0 /lxc/off, web 0 /lxc.payload.web, web-1 600 /lxc.payload.web-1, off-1 500 /lxc.payload.off-1"
	if strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	if _, any := table.ofProcess(401); !any {
		t.Error("a process of box is not of a container")
	}
}

// Changes show at the next fetch. The id of an instance does not change.
func TestChanges(t *testing.T) {
	h := newHarness(t, composed())
	before := h.Instances(0)
	for _, path := range []string{"docker/containers/" + idA, "data/containers.json"} {
		if err := os.RemoveAll(filepath.Join(h.root, path)); err != nil {
			t.Fatal(err)
		}
	}
	pmdatest.WriteFile(t, h.root, "docker/containers/"+idB+"/config.json", `{"Name":"/again","State":{"Running":true,"Restarting":true,"Pid":0}}`)
	after := h.Instances(0)
	for _, i := range after {
		for _, j := range before {
			if (i.Name == j.Name) != (i.ID == j.ID) {
				t.Errorf("instance %v was %v", i, j)
			}
		}
	}
	// The processes of the others are still there, so these are known by their groups.
	if got := h.Values("containers.name"); !strings.Contains(got, idB+"=again") || !strings.Contains(got, idD+"=?") {
		t.Errorf("names: %s", got)
	}
	if got := h.Values("containers.state.restarting"); !strings.Contains(got, idB+"=1") {
		t.Errorf("restarting: %s", got)
	}
	if got := h.Values("containers.pid"); !strings.Contains(got, idA+"=100") {
		t.Errorf("processes: %s", got)
	}
}

// Of a container that is gone only the id is kept.
func TestGone(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"lxc/box/config": ""})
	a := &agent{newTable(options(root)), cache.New(0, cache.Options{})}
	for _, want := range []cache.State{cache.Active, cache.Inactive} {
		if err := a.refresh(t.Context(), new(pmda.Request)); err != nil {
			t.Fatal(err)
		}
		e, _ := a.insts.LookupName("box")
		if i := e.Data.(*instance); e.State != want || (i.container != nil) != (want == cache.Active) {
			t.Errorf("got %v with %v, want %v", e.State, i.container, want)
		}
		if err := os.RemoveAll(filepath.Join(root, "lxc/box")); err != nil {
			t.Fatal(err)
		}
	}
}

// Without engines there are no containers, and nothing is logged.
func TestEmptyHost(t *testing.T) {
	h := newHarness(t, map[string]string{"x": ""})
	h.Want(map[string]string{"containers.name": "", "containers.pid": ""})
	if h.log.Len() > 0 {
		t.Errorf("log: %s", h.log.String())
	}
}
