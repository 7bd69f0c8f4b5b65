package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// reloaded asks for a reload and waits for its end.
func (r *harness) reloaded() {
	r.t.Helper()
	n := r.Status().Reloads.Count
	r.Reload()
	testutil.Eventually(r.t, "reloaded", func() bool { return r.Status().Reloads.Count > n })
}

// The agents follow the configuration: what has not changed goes on, and the
// rest is what the file says. One that is rejected changes nothing.
func TestReloadAgents(t *testing.T) {
	r := newHarness(t, nil, map[int]func(wire.Conn){243: serveAgent(&agentsettest.Tester{Domain: 243})})
	r.awaitStarts()
	c := r.dialValues()
	all := []pdu.PMID{id(240, 1), id(241, 1), id(242, 1), id(243, 1)}
	const noAgent = "PM_ERR_NOAGENT"
	show := func(vs ...any) string {
		return fmt.Sprintf("240.0.1=%v 241.0.1=%v 242.0.1=%v 243.0.1=%v", vs...)
	}
	steps := []struct {
		name    string
		conf    string // "" leaves it
		values  string
		changes pdu.Errno
		opens   []int // how often 240 to 243 were started
		log     string
	}{
		{"as it was", "", show(240, 241, 242, noAgent), 0, []int{1, 1, 1, 0}, "unchanged"},
		{
			"one more, another label, other spacing", "pmcd 2 dso pmcd_init /none\n tt  240 pipe binary t\nu 241 pipe binary u\nv 242 pipe binary v\nw 243 pipe binary w\n",
			show(240, 241, 242, 243), pdu.StateAddAgent, []int{1, 1, 1, 1}, "",
		},
		{
			"one less", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\nu 241 pipe binary u\nw 243 pipe binary w\n",
			show(240, 241, noAgent, 243), pdu.StateDropAgent, []int{1, 1, 1, 1}, `Cleanup "v" agent (dom 242): unconfigured`,
		},
		{
			"another command", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t -x\nu 241 pipe binary u\nw 243 pipe binary w\n",
			show(240, 241, noAgent, 243), pdu.StateDropAgent | pdu.StateAddAgent, []int{2, 1, 1, 1}, "",
		},
		{"a file that is rejected", "t 240 pipe nonsense\n", show(240, 241, noAgent, 243), 0, []int{2, 1, 1, 1}, "Configuration left unchanged"},
		{"the same again", "", show(240, 241, noAgent, 243), 0, []int{2, 1, 1, 1}, "has errors"},
		{"a file without agents", "# nothing\n", show(240, 241, noAgent, 243), 0, []int{2, 1, 1, 1}, "has no valid agents"},
		{
			"a good one", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t -x\n",
			show(240, noAgent, noAgent, noAgent), pdu.StateDropAgent, []int{2, 1, 1, 1}, "",
		},
	}
	for _, s := range steps {
		r.logs.TakeAll()
		if s.conf != "" {
			r.write("pmcd.conf", s.conf)
		}
		r.reloaded()
		got, changes := c.fetch(all...)
		if got != s.values || changes != s.changes {
			t.Errorf("%s: got %s, changes %d\nwant %s, changes %d", s.name, got, changes, s.values, s.changes)
		}
		r.mu.Lock()
		opens := []int{r.opens[240], r.opens[241], r.opens[242], r.opens[243]}
		r.mu.Unlock()
		if !slices.Equal(opens, s.opens) {
			t.Errorf("%s: started %v, want %v", s.name, opens, s.opens)
		}
		if !r.logged(s.log) {
			t.Errorf("%s: %q is not in the log", s.name, s.log)
		}
		if err, bad := r.Status().Reloads.Err, r.logged("left unchanged"); bad != (err != nil) {
			t.Errorf("%s: the status says %v", s.name, err)
		}
	}
}

// The log has each mistake of a configuration with its place, whether it is used or not.
// Mistakes that follow a wrong agent line are among them. The status says what is done
// with a file that is not used.
func TestReloadMistakes(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.hooks.resolver = new(directory) }, nil)
	r.awaitStarts()
	path := r.dir + "/pmcd.conf"
	const kept = "; the configuration that was read before stays in use: correct the file (pmcd -v shows its mistakes), then SIGHUP"
	for _, tt := range []struct {
		name, conf string
		log        []string // of the lines with a place
		status     string
	}{
		{"it is used", "x y\n" + testAgents + "disallow faraway : all;\nallow 127.0.0.1 : all;\n", []string{
			`ERROR 1:3: expected domain number for "x" agent`,
			`WARN 6:10: access control error for host 'faraway': no such host; this rule is left out until a reload finds the host`,
		}, ""},
		{"it is rejected", "x y\nt 240 pipe nonsense\n[access]\nallow 127.0.0.1 : nix;\ndisallow faraway : all;\n", []string{
			`ERROR 1:3: expected domain number for "x" agent`,
			"ERROR 2:12: pipe PDU type expected (`binary')",
			`ERROR 4:19: bad access specifier`,
			`WARN 5:10: access control error for host 'faraway': no such host; this rule is left out until a reload finds the host`,
		}, "has errors: " + path + `:1:3: expected domain number for "x" agent (and 2 more errors)` + kept},
		{"it has no agents", "# nothing\n", nil, "has no valid agents" + kept},
	} {
		r.logs.TakeAll()
		r.write("pmcd.conf", tt.conf)
		r.reloaded()
		var got []string
		for _, e := range r.logs.All() {
			if text, ok := strings.CutPrefix(e.Message, path+":"); ok {
				got = append(got, e.Level.String()+" "+text)
			}
		}
		if !slices.Equal(got, tt.log) {
			t.Errorf("%s: the log has\n%q, want\n%q", tt.name, got, tt.log)
		}
		status := ""
		if err := r.Status().Reloads.Err; err != nil {
			status = strings.TrimPrefix(err.Error(), "Configuration file '"+path+"' ")
		}
		if status != tt.status {
			t.Errorf("%s: the status is\n%s, want\n%s", tt.name, status, tt.status)
		}
	}
}

// An agent that is down is started by the second reload of a file that is
// rejected, as by one of a file that has not changed.
func TestReloadRejectedStartsAgents(t *testing.T) {
	r := newHarness(t, nil, nil) // without restarts by itself
	r.awaitStarts()
	r.write("pmcd.conf", "t 240 pipe nonsense\n")
	r.reloaded()
	a := r.Daemon.routes.Load().Agent(240)
	a.Conn().Disconnect(errors.New("a test"))
	r.reloaded()
	if a.Conn() == nil {
		t.Error("still down")
	}
	if r.Status().Reloads.Err == nil {
		t.Error("the status does not say that the file is not in force")
	}
}

// A reload without a pmcd.conf says which file is missing and what is in force.
func TestReloadWithoutFile(t *testing.T) {
	r := newHarness(t, nil, nil)
	r.awaitStarts()
	path := filepath.Join(r.dir, "pmcd.conf")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	r.reloaded()
	want := "stat " + path + ": no such file or directory; the configuration that was read before stays in use: put the file back, then SIGHUP"
	if err := r.Status().Reloads.Err; err == nil || err.Error() != want || r.logs.Exactly("ParseRestartAgents: "+want) != 1 {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A reload takes the agent away while it works: that is not a failure of the
// agent.
func TestUnconfiguredWhileItWorks(t *testing.T) {
	for _, s := range []struct {
		name string
		at   pdu.Type
		req  pdu.Message
		conf string
		want string
	}{
		{"fetch", pdu.TypeFetch, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}}, "u 241 pipe binary u\n", "240.0.1=PM_ERR_NOAGENT"},
		{"fetch with others", pdu.TypeFetch, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1), id(241, 1)}}, "u 241 pipe binary u\n", "240.0.1=PM_ERR_NOAGENT 241.0.1=241"},
		{"another command", pdu.TypeFetch, &pdu.Fetch{PMIDs: []pdu.PMID{id(240, 1)}}, "t 240 pipe binary t -x\n", "240.0.1=PM_ERR_NOAGENT"},
		{"descriptor", pdu.TypeDescReq, &pdu.DescReq{PMID: id(240, 1)}, "u 241 pipe binary u\n", "PM_ERR_NOAGENT"},
	} {
		t.Run(s.name, func(t *testing.T) {
			asked := make(chan struct{}, 2)
			r := newHarness(t, nil, map[int]func(wire.Conn){240: script(240, s.at, func(c wire.Conn, _ []byte) {
				asked <- struct{}{}
				hold(c)
			})})
			c := r.dial()
			c.send(&pdu.Profile{}, s.req)
			<-asked
			r.write("pmcd.conf", s.conf)
			r.reloaded()
			m := c.recv()
			if e, ok := m.(*pdu.Error); ok && e.Code > 0 {
				m = c.recv() // that was a notice of changes
			}
			if got := show(m); !strings.HasSuffix(got, s.want) {
				t.Errorf("got %s, want %s", got, s.want)
			}
		})
	}
}

// The name space follows its file. One that cannot be loaded leaves the one
// before.
func TestReloadNames(t *testing.T) {
	r := newHarness(t, nil, nil)
	c := r.dialValues()
	steps := []struct {
		name, names, lookup, want, log string
	}{
		{"as it was", "", "t.two", "240.0.2", "is unchanged"},
		{"another one", "root { t }\nt { nine 240:0:9 }\n", "t.nine", "240.0.9", "Reloading PMNS"},
		{"the old names are gone", "", "t.two", "PM_ERR_NAME", ""},
		{"a bad one", "root { t\n", "t.nine", "240.0.9", "stay in use"},
		{"the same again", "", "t.nine", "240.0.9", "stay in use"},
		{"a good one again", "root { t }\nt { ten 240:0:10 }\n", "t.ten", "240.0.10", "Reloading PMNS"},
	}
	for _, s := range steps {
		r.logs.TakeAll()
		if s.names != "" {
			r.write("pmns", s.names)
		}
		r.reloaded()
		if got := c.pmid(s.lookup); got != s.want {
			t.Errorf("%s: got %s, want %s", s.name, got, s.want)
		}
		if !r.logged(s.log) {
			t.Errorf("%s: %q is not in the log", s.name, s.log)
		}
	}
}

// Each living agent is asked at each reload whether it runs something old.
func TestReloadWarnsOfChanges(t *testing.T) {
	var asked, changed atomic.Int32
	r := newHarness(t, func(c *Config) {
		open := c.Agents.Open
		c.Agents.Open = func(ctx context.Context, spec *pmcdconf.Agent, opt wire.Options) (*transport.Conn, error) {
			l, err := open(ctx, spec, opt)
			if err == nil && spec.Domain == 241 {
				l.Changed = func() error {
					asked.Add(1)
					if changed.CompareAndSwap(1, 0) {
						return errors.New("u is old")
					}
					return nil
				}
			}
			return l, err
		}
	}, nil)
	r.awaitStarts()
	warnings := func() (n int) {
		for _, e := range r.logs.With("u is old") {
			if e.Message == "u is old" && e.Level == slog.LevelWarn {
				n++
			}
		}
		return n
	}
	for i, want := range []int{0, 1, 1} {
		changed.Store(int32(i % 2))
		r.reloaded()
		if got := warnings(); got != want || asked.Load() != int32(i+1) {
			t.Errorf("reload %d: %d warnings, asked %d times; want %d and %d", i, got, asked.Load(), want, i+1)
		}
	}
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\n")
	changed.Store(1)
	if r.reloaded(); warnings() != 1 {
		t.Error("an agent that is not there any more was asked")
	}
}

// An agent that becomes ready may have new names.
func TestReadyReloadsNames(t *testing.T) {
	ready := make(chan struct{})
	r := newHarness(t, func(c *Config) {
		os.WriteFile(c.Files.Conf, []byte("pmcd 2 dso pmcd_init /none\nt 240 pipe binary notready t\n"), 0o666)
	}, map[int]func(wire.Conn){240: func(c wire.Conn) {
		c.Write(word(20, 0x700c, 0, 1, 0x01020000))
		<-ready
		c.Write(errorPDU(pdu.ErrnoReady))
		script(240, 0, nil)(greeted{c, new(bool)})
	}})
	r.awaitStarts()
	c := r.dialValues()
	if got := c.values(id(240, 1), pdu.NewPMID(2, 4, 1)); got != "240.0.1=PM_ERR_AGAIN 2.4.1=0,1" {
		t.Errorf("not ready: %s", got)
	}
	if got := c.traverse("d"); got != "PM_ERR_AGAIN" {
		t.Errorf("not ready: traverse %s", got)
	}
	r.write("pmns", "root { t d 240:*:* }\nt { nine 240:0:9 }\n")
	close(ready)
	testutil.Eventually(t, "new names", func() bool {
		return c.pmid("t.nine") == "240.0.9"
	})
	testutil.Eventually(t, "values", func() bool {
		return c.values(id(240, 1)) == "240.0.1=1"
	})
}

// Context labels are those of the files, of the host and of the client.
func TestContextLabels(t *testing.T) {
	r := newHarness(t, nil, nil)
	tcp, unix := r.dialValues(), r.dialContainer("bozo")
	host, _ := os.Hostname()
	for _, want := range []string{`"hostname":"` + host + `"`, `"domainname":`, `"machineid":`} {
		if got := tcp.contextLabels(); !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	r.write("labels/a", `{"site": "here", "hostname": "not this", "deep": {"a": [1, 2]}}`)
	got := unix.contextLabels()
	for _, want := range []string{
		`"container":"bozo"`, `"deep.a":[1,2]`, `"site":"here"`, `"hostname":"` + host + `"`,
		fmt.Sprintf(`"userid":%d`, os.Getuid()), fmt.Sprintf(`"groupid":%d`, os.Getgid()),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if _, changes := tcp.fetch(id(240, 1)); changes != pdu.StateLabelChange {
		t.Errorf("state changes %d, want %d", changes, pdu.StateLabelChange)
	}
	if err := os.RemoveAll(filepath.Join(r.dir, "labels")); err != nil {
		t.Fatal(err)
	}
	if got, want := tcp.contextLabels(), pdu.Errno(-2).Name(); got != want {
		t.Errorf("without the directory: %s, want %s", got, want)
	}
}
