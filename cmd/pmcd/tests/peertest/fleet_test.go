package peertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

const (
	fleetHosts   = 100
	fleetTimeout = 5 * time.Minute
)

// fleetHost starts a pmcd in a UTS name space, so that it has the host name that it would have
// on a host of its own.
const fleetHost = `#!/bin/sh
exec unshare -u -- sh -c 'hostname "$FLEET_HOST" && exec "$FLEET_PMCD" "$@"' pmcd "$@"
`

const fleetProxyConf = `
[pmproxy]
pcp.enabled = true
http.enabled = true
redis.enabled = true
[discover]
enabled = true
[pmseries]
enabled = true
servers = 127.0.0.1:%d
`

// A fleet is many hosts with a pmcd each, and a center: the first host, in whose directory the
// other programs run.
type fleet struct {
	names  []string
	hosts  []*peer.Daemon
	center *peer.Daemon
	store  int    // port of redis-server
	url    string // of pmproxy
}

// A pmlogger for each of a hundred hosts writes archives, and pmproxy puts them into a
// key-value store. A query returns the values of every host.
func TestFleet(t *testing.T) {
	f := startFleet(t, fleetHosts)
	for i := range f.hosts {
		f.startLogger(t, i)
	}
	f.startStore(t)
	f.startProxy(t)
	// The values of nodename are the names of hosts.
	var got []string
	var err error
	if !peer.Until(fleetTimeout, func() bool {
		got, err = f.values("kernel.uname.nodename[count:1]")
		return err == nil && len(got) >= len(f.names)
	}) {
		t.Fatalf("series of %d hosts, %v", len(got), err)
	}
	slices.Sort(got)
	if !slices.Equal(got, f.names) {
		t.Errorf("got series of %q\nwant %q", got, f.names)
	}

	// Values come in steadily: ten more of each host.
	before := f.use()
	if !peer.Until(fleetTimeout, func() bool {
		got, err = f.values("kernel.uname.nodename[count:12]")
		return err == nil && len(got) >= 12*len(f.names)
	}) {
		t.Errorf("%d values, %v", len(got), err)
	}
	logUse(t, before, f.use())

	// A label selects a host.
	const query = `kernel.uname.nodename{hostname == "%s"}[count:1]`
	for _, name := range []string{f.names[0], f.names[len(f.names)-1]} {
		if got, err := f.values(fmt.Sprintf(query, name)); err != nil || !slices.Equal(got, []string{name}) {
			t.Errorf("series with the label of %s: %q, %v", name, got, err)
		}
	}
	o, err := f.center.Run(t.Context(), peer.TCP4,
		client("pmseries", "-h", "127.0.0.1", "-p", strconv.Itoa(f.store), fmt.Sprintf(query, f.names[7])))
	if err != nil || o.Code != 0 || !strings.Contains(o.Stdout, `"`+f.names[7]+`"`) {
		t.Errorf("pmseries: %v\n%s", err, o)
	}

	// pmproxy also asks a pmcd for current values.
	text, err := f.get("/metrics", "hostspec", "127.0.0.1:"+strconv.Itoa(f.hosts[9].Port), "names", "kernel.all.load")
	if err != nil || !strings.Contains(string(text), `hostname="`+f.names[9]+`"`) {
		t.Errorf("/metrics: %v\n%s", err, text)
	}
}

// A use is what the processes of one program use together.
type use struct {
	processes int
	cpu       time.Duration
	memory    int // proportional, in KiB
	at        time.Time
}

// use returns what the programs of f use, by their names.
func (f *fleet) use() map[string]use {
	all := make(map[string]use)
	for _, p := range peer.Descendants(os.Getpid()) {
		if p.Name == "pmcd" && !slices.ContainsFunc(f.hosts, func(d *peer.Daemon) bool { return d.PID() == p.PID }) {
			continue // of other tests
		}
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
		if err != nil {
			continue // it has ended
		}
		u := all[p.Name]
		u.processes++
		u.at = time.Now()
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, ticks := range fields[11:13] { // utime, stime
			n, _ := strconv.Atoi(ticks)
			u.cpu += time.Duration(n) * time.Second / 100 // USER_HZ
		}
		rollup, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", p.PID))
		for line := range strings.Lines(string(rollup)) {
			if w := strings.Fields(line); w[0] == "Pss:" {
				n, _ := strconv.Atoi(w[1])
				u.memory += n
			}
		}
		all[p.Name] = u
	}
	return all
}

// logUse logs the figures of docs/fleet.md: for one process of each program.
func logUse(t *testing.T, before, after map[string]use) {
	t.Helper()
	for _, name := range []string{"pmcd", "pmlogger", "pmproxy", "redis-server"} {
		a, b := before[name], after[name]
		if b.processes == 0 || b.processes != a.processes {
			t.Errorf("%d processes of %s, then %d", a.processes, name, b.processes)
			continue
		}
		n := float64(b.processes)
		t.Logf("%s: %d processes, in %v %.3f%% of a CPU and %.1f MB each", name, b.processes, b.at.Sub(a.at).Round(time.Second),
			100*(b.cpu-a.cpu).Seconds()/b.at.Sub(a.at).Seconds()/n, float64(b.memory)/1024/n)
	}
}

func startFleet(t *testing.T, n int) *fleet {
	peer.Require(t)
	if _, err := exec.LookPath("redis-server"); err != nil {
		testutil.Missing(t, err, " (run make peers)")
	}
	pmcd, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(t.TempDir(), "pmcd")
	if err := os.WriteFile(script, []byte(fleetHost), 0o755); err != nil {
		t.Fatal(err)
	}
	f := new(fleet)
	for i := range n {
		name := fmt.Sprintf("host%03d.example", i)
		f.names = append(f.names, name)
		f.hosts = append(f.hosts, peer.StartT(t, script, peer.Config{
			Embedded: true, Bare: true, Env: []string{"FLEET_PMCD=" + pmcd, "FLEET_HOST=" + name},
		}))
	}
	f.center = f.hosts[0]
	return f
}

// startLogger starts the pmlogger for a host, and waits for its first values. Archives are
// where pmproxy looks for them, in a directory for each host.
func (f *fleet) startLogger(t *testing.T, i int) {
	t.Helper()
	dir := filepath.Join(f.center.Dir, "log", "pmlogger", f.names[i])
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("cd %s\necho 'log mandatory on 1 sec { kernel.all.load kernel.uname.nodename }' >conf\n"+
		"exec pmlogger -h 127.0.0.1:%d -c conf -l pmlogger.log -r a", dir, f.hosts[i].Port)
	f.center.Background(t, client("/bin/sh", "-c", script), func() error {
		s, err := os.Stat(filepath.Join(dir, "a.0"))
		if err == nil && s.Size() == 0 {
			err = fmt.Errorf("the archive of %s has no values yet", f.names[i])
		}
		return err
	})
}

func (f *fleet) startStore(t *testing.T) {
	t.Helper()
	var err error
	if f.store, err = peer.FreePort(); err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(f.store)
	f.center.Background(t, client("redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"), func() error {
		c, err := net.Dial("tcp4", "127.0.0.1:"+port)
		if err != nil {
			return err
		}
		return c.Close()
	})
}

func (f *fleet) startProxy(t *testing.T) {
	t.Helper()
	port, _ := startProxyWith(t, f.center, fmt.Sprintf(fleetProxyConf, f.store), "PCP_ARCHIVE_DIR={dir}/log/pmlogger")
	f.url = "http://127.0.0.1:" + strconv.Itoa(port)
}

// get asks pmproxy. Names and values of parameters alternate.
func (f *fleet) get(path string, params ...string) ([]byte, error) {
	q := make(url.Values)
	for i := 0; i < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	r, err := http.Get(f.url + path + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	text, err := io.ReadAll(r.Body)
	if err == nil && r.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", r.Status, text)
	}
	return text, err
}

// values returns the values of a query that has one for each series, which are texts.
func (f *fleet) values(expr string) ([]string, error) {
	text, err := f.get("/series/query", "expr", expr)
	if err != nil {
		return nil, err
	}
	var reply []struct{ Value string }
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	var list []string
	for _, v := range reply {
		list = append(list, strings.Trim(v.Value, `"`))
	}
	return list, nil
}
