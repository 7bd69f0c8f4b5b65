package installed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// A crasher is a machine on which pmcd is killed again and again.
type crasher struct {
	t    *testing.T
	m    *peer.Machine
	rnd  *rand.Rand
	args []string // start pmcd
	sock string   // of clients
	ctl  string   // of pmcdctl
	log  string
	pid  string // PID file; "" if pmcd stays in the foreground

	confs [2]string // pmcd.conf, of which a reload takes the other one
	conf  int       // the one in use
	ps    []string  // processes of the first start

	// Of the command that was last launched.
	began time.Time
	ended chan struct{} // closed when the rest is known
	out   peer.Output
	err   error

	fetches, connections atomic.Int64 // of the clients
	slowest              time.Duration
}

// TestPeerCrash kills pmcd at moments of all kinds, in the long form often. The
// next one starts at once in spite of what that has left: files, sockets,
// processes.
func TestPeerCrash(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		c    *crasher
	}{
		{"background", &crasher{
			args: peer.Client{Args: strings.Fields("/usr/lib/pcp/bin/pmcd -A")}.Args,
			sock: "/run/pcp/pmcd.socket", ctl: "/run/pcp/pmcd.ctl", log: "/var/log/pcp/pmcd/pmcd.log", pid: "/run/pcp/pmcd.pid",
		}},
		{"foreground", &crasher{ // without the rights of root
			args: peer.Client{Args: strings.Fields("setpriv --reuid=pcp --regid=pcp --clear-groups /usr/lib/pcp/bin/pmcd -f -A -s /var/tmp/u/sock -l /var/tmp/u/log")}.Args,
			sock: "/var/tmp/u/sock", ctl: "/var/tmp/u/sock.ctl", log: "/var/tmp/u/log",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := tt.c
			c.t, c.m = t, peer.BootMachine(t, peer.Must(peer.UnderTest())(t))
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			c.rnd = rand.New(rand.NewPCG(seed, 0))
			rounds := 8
			if os.Getenv("PMCD_LONG") == "1" {
				rounds = 100
			}
			c.prepare()
			c.run(rounds)
		})
	}
}

// sh runs a shell command on the machine.
func (c *crasher) sh(script string) {
	c.t.Helper()
	o, err := c.m.Run(c.t.Context(), "/", peer.Client{Args: []string{"sh", "-c", script}})
	if err != nil || o.Code != 0 {
		c.t.Fatalf("%s: %v\n%s\n%s", script, err, o, c.lastLog())
	}
}

func (c *crasher) lastLog() string {
	b, _ := os.ReadFile(c.m.Path(c.log))
	return string(b)
}

func (c *crasher) prepare() {
	text := string(peer.Must(os.ReadFile(c.m.Path(peer.PmcdConf)))(c.t))
	if c.pid == "" {
		c.sh("mkdir /var/tmp/u && chown pcp:pcp /var/tmp/u")
		for _, name := range []string{"root", "proc", "linux"} { // they need root
			text = strings.ReplaceAll(text, "\n"+name+"\t", "\n#"+name+"\t")
		}
	}
	c.confs = [2]string{text, strings.ReplaceAll(text, "\nkvm\t", "\n#kvm\t")}
	if c.agents(0) != c.agents(1)+1 {
		c.t.Fatalf("%s has no agent kvm", peer.PmcdConf)
	}
	c.configure(0)
}

// agents counts the lines of agents in a pmcd.conf.
func (c *crasher) agents(conf int) (n int) {
	lines, _, _ := strings.Cut(c.confs[conf], "[access]")
	for line := range strings.Lines(lines) {
		if line != "\n" && line[0] != '#' {
			n++
		}
	}
	return n
}

func (c *crasher) configure(conf int) {
	if err := os.WriteFile(c.m.Path(peer.PmcdConf), []byte(c.confs[conf]), 0o644); err != nil {
		c.t.Fatal(err)
	}
	c.conf = conf
}

func (c *crasher) run(rounds int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var users []chan error
	for range 3 {
		end := make(chan error, 1)
		users = append(users, end)
		go func() { end <- c.use(ctx) }()
	}
	c.launch()
	c.expectWell()
	for i := range rounds {
		log := peer.Must(os.Stat(c.m.Path(c.log)))(c.t)
		moment := []string{"start", "work", "reload", "end"}[c.rnd.IntN(4)]
		pause := time.Duration(math.Pow(c.rnd.Float64(), 2) * float64(400*time.Millisecond)) // rather short
		c.t.Logf("%d: %s, %v", i, moment, pause)
		switch moment {
		case "start":
			c.kill()
			c.launch()
		case "reload":
			c.configure(1 - c.conf)
			c.sh("pkill -HUP -x pmcd")
		case "end":
			c.sh("pkill -TERM -x pmcd")
		}
		time.Sleep(pause) // nothing is waited for: this is the moment
		c.kill()
		c.launch()
		c.expectWell()
		if moment == "start" {
			continue // there may have been a log in between
		}
		if prev, err := os.Stat(c.m.Path(c.log + ".prev")); err != nil || !os.SameFile(log, prev) {
			c.t.Errorf("the log of the one that was killed is not kept: %v", err)
		}
	}
	cancel()
	for _, end := range users {
		if err := <-end; err != nil {
			c.t.Error(err)
		}
	}
	c.sh("pkill -TERM -x pmcd")
	var left []string
	if !peer.Until(peer.Hangs, func() bool { left = c.m.Processes(); return len(left) == 0 }) {
		c.t.Errorf("processes are left: %q", left)
	}
	for _, path := range []string{c.sock, c.ctl, c.pid} {
		if _, err := os.Lstat(c.m.Path(path)); path != "" && !errors.Is(err, fs.ErrNotExist) {
			c.t.Errorf("%s is left: %v", path, err)
		}
	}
	if log := c.lastLog(); strings.Contains(log, "DATA RACE") {
		c.t.Error(log)
	}
	c.t.Logf("%d fetches over %d connections; slowest start %v", c.fetches.Load(), c.connections.Load(), c.slowest)
}

// launch starts pmcd.
func (c *crasher) launch() {
	c.began, c.ended = time.Now(), make(chan struct{})
	go func() {
		c.out, c.err = c.m.Run(context.Background(), filepath.Dir(c.log), peer.Client{Args: c.args})
		close(c.ended)
	}()
}

// kill ends all that is called pmcd: on the way to the background these are
// two, and right after the launch there may be none yet.
func (c *crasher) kill() {
	c.t.Helper()
	const all = "while pkill -KILL -x pmcd; do :; done"
	for ended := false; !ended; {
		c.sh(all)
		select {
		case <-c.ended:
			ended = true
		case <-time.After(10 * time.Millisecond):
		}
	}
	c.sh(all)
}

// startLimit is how long a start with all agents may take.
const startLimit = 5 * time.Minute

// expectWell waits until all is as after the first start.
func (c *crasher) expectWell() {
	c.t.Helper()
	var got string
	want := fmt.Sprintf("%d agents, 0 down", c.agents(c.conf))
	if !peer.Until(startLimit, func() bool { got = c.look(); return got == want }) {
		c.t.Fatalf("%s, want %s\n%s", got, want, c.lastLog())
	}
	c.slowest = max(c.slowest, time.Since(c.began))
	if c.pid != "" {
		if <-c.ended; c.err != nil || c.out.Code != 0 || c.out.Stderr != "" {
			c.t.Errorf("it serves, but: %v\n%s", c.err, c.out)
		}
		c.sh(`[ "$(cat ` + c.pid + `)" = "$(pgrep -x pmcd)" ]`)
	}
	conn, err := net.Dial("unix", c.m.Path(c.ctl))
	if err != nil {
		c.t.Fatal(err)
	}
	conn.Close()
	// Nothing of the one before is left.
	var ps []string
	if !peer.Until(peer.Hangs, func() bool {
		ps = c.m.Processes()
		slices.Sort(ps)
		if c.ps == nil {
			c.ps = ps
		}
		return slices.Equal(ps, slices.DeleteFunc(slices.Clone(c.ps), func(line string) bool {
			return c.conf == 1 && strings.Contains(line, "/pmdakvm ")
		}))
	}) {
		c.t.Errorf("the processes are %q, and were %q", ps, c.ps)
	}
}

// look says how many agents there are.
func (c *crasher) look() string {
	u, err := pmcdtest.Connect(c.m.Path(c.sock))
	if err != nil {
		return err.Error()
	}
	defer u.Close()
	var r pmapi.Result
	if err := u.Fetch(context.Background(), []pdu.PMID{pdu.NewPMID(2, 4, 1)}, &r); err != nil { // pmcd.agent.status
		return err.Error()
	}
	down := 0
	for _, v := range r.Sets[0].Values {
		if v.Word != 0 {
			down++
		}
	}
	return fmt.Sprintf("%d agents, %d down", len(r.Sets[0].Values), down)
}

// use fetches from some agents, again and again, and connects again when pmcd
// has gone. It fails if there is none to connect to for too long.
func (c *crasher) use(ctx context.Context) error {
	ids := []pdu.PMID{pdu.NewPMID(2, 0, 3), pdu.NewPMID(60, 2, 0), pdu.NewPMID(3, 8, 99), pdu.NewPMID(122, 0, 0)}
	pace := time.NewTicker(2 * time.Millisecond) // leave something for others
	defer pace.Stop()
	last := time.Now()
	var r pmapi.Result
	for ctx.Err() == nil {
		w, err := pmcdtest.Connect(c.m.Path(c.sock))
		if err == nil {
			c.connections.Add(1)
		}
		for err == nil && ctx.Err() == nil {
			if err = w.Fetch(context.Background(), ids, &r); err == nil {
				c.fetches.Add(1)
				last = time.Now()
			}
			<-pace.C
		}
		if w != nil {
			w.Close()
		}
		if time.Since(last) > startLimit {
			return fmt.Errorf("no answer for %v: %w", startLimit, err)
		}
		<-pace.C
	}
	return nil
}
