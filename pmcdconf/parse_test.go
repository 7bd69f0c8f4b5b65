package pmcdconf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gopcp/pmcd/access"
)

// fake is a host on which vm, its own name, is 127.0.0.1.
type fake struct {
	hosts map[string]string
}

var (
	accounts = map[string]uint32{"root": 0, "daemon": 1, "pcp": 995, "nobody": 65534}
	vm       = fake{
		hosts: map[string]string{"vm": "127.0.0.1", "two": "192.0.2.7 ::ffff:192.0.2.8 fd00::7 192.0.2.7"},
	}
	fakeOptions = Options{Hostname: "vm", Resolver: vm}
)

func (f fake) Hosts(name string) (addrs []netip.Addr, err error) {
	for _, a := range strings.Fields(f.hosts[name]) {
		addrs = append(addrs, netip.MustParseAddr(a))
	}
	if addrs == nil {
		err = errors.New("no such host")
	}
	return addrs, err
}

func (f fake) Port(name string) (int, error) {
	if n, ok := map[string]int{"http": 80, "ntp": 123}[name]; ok {
		return n, nil
	}
	return 0, errors.New("unknown service")
}

func (f fake) User(name string) (uint32, []uint32, error) {
	if id, ok := accounts[name]; ok {
		return id, []uint32{id}, nil
	}
	return 0, nil, errors.New("unknown user")
}

func (f fake) GroupName(gid uint32) string {
	for name, id := range accounts {
		if id == gid {
			return name
		}
	}
	return ""
}

func (f fake) Group(name string) (uint32, error) {
	if id, ok := accounts[name]; ok {
		return id, nil
	}
	return 0, errors.New("unknown group")
}

func (f fake) Groups(uid uint32) ([]uint32, error) { return []uint32{uid}, nil }

// write writes the files of a case to a directory and returns the path of the
// configuration.
func (tt *fileCase) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "conf")
	files := map[string]string{path: tt.conf}
	if tt.access != "" {
		files[path+".access"] = strings.TrimPrefix(tt.access, "-")
	}
	for name, text := range files {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// describe returns problems in the form of fileCase.problems.
func describe(l ErrorList) (list []string) {
	for _, e := range l {
		dir, file := filepath.Split(e.Pos.File)
		e := *e
		e.Pos.File = file
		list = append(list, e.Pos.String()+" "+strings.ReplaceAll(e.PCP(), " at "+dir, " at "))
	}
	return list
}

func describeAgents(agents []Agent) string {
	var list []string
	for _, a := range agents {
		s := fmt.Sprintf("%s %d ", a.Name, a.Domain)
		if a.NotReady {
			s += "notready "
		}
		list = append(list, s+a.String())
	}
	return strings.Join(list, "; ")
}

// describeHosts returns the operations, addresses and limits in an access list, which it
// reads from its table.
func describeHosts(l *access.List) string {
	var list []string
	for i, line := range strings.Split(l.String(), "\n") {
		if strings.HasPrefix(line, "User access") {
			break
		}
		if i < 3 || len(line) < 19 {
			continue
		}
		cell := func(from, to int) string { return strings.TrimSpace(line[from:to]) }
		s := line[1:2] + line[4:5] + " " + cell(18, 57)
		if m := cell(58, 97); m != "/" && strings.Trim(m, "f:") != "" && m != "255.255.255.255" || m == "::" || strings.HasSuffix(m, "::") {
			s += "/" + m
		}
		if n := cell(12, 17); n != "0" {
			s += " " + n
		}
		list = append(list, s)
	}
	return strings.Join(list, "; ")
}

func TestParse(t *testing.T) {
	seen := make(map[string]bool)
	for i := range fileCases {
		tt := &fileCases[i]
		if seen[tt.name] {
			t.Errorf("%s: two cases of that name", tt.name)
		}
		seen[tt.name] = true
		t.Run(tt.name, func(t *testing.T) {
			conf, err := ParseFile(t.Context(), tt.write(t), fakeOptions)
			if conf == nil {
				t.Fatal(err)
			}
			if (err == nil) != tt.ok {
				t.Errorf("got %v, want accepted: %v", err, tt.ok)
			}
			if got, want := strings.Join(describe(conf.Problems), "\n"), strings.Join(tt.problems, "\n"); got != want {
				t.Errorf("problems\ngot\n%s\nwant\n%s", got, want)
			}
			if got := describeAgents(conf.Agents); got != tt.agents {
				t.Errorf("agents\ngot  %s\nwant %s", got, tt.agents)
			}
			if got := describeHosts(conf.Access); got != tt.rules {
				t.Errorf("rules\ngot  %s\nwant %s", got, tt.rules)
			}
			var list ErrorList
			if err != nil && (!errors.As(err, &list) || len(list) != len(conf.Problems)) {
				t.Errorf("the error is %#v", err)
			}
		})
	}
}

func TestAgentsOnly(t *testing.T) {
	const text = "a 1 pipe binary x\n[access]\nnonsense\n"
	conf, err := Parse("conf", strings.NewReader(text), Options{AgentsOnly: true})
	if err != nil || len(conf.Agents) != 1 || len(conf.Problems) != 0 {
		t.Errorf("got %+v, %v", conf, err)
	}
	if _, err := Parse("conf", strings.NewReader("x\n[access]\n"), Options{AgentsOnly: true}); err == nil {
		t.Error("a mistake in the last line is accepted")
	}
}

func TestBadHosts(t *testing.T) {
	for name, want := range badHosts {
		t.Run(name, func(t *testing.T) {
			conf, err := Parse("conf", strings.NewReader(head+"allow \""+name+"\" : fetch;"), fakeOptions)
			if err == nil || len(conf.Problems) != 1 || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}

func TestHostNames(t *testing.T) {
	for _, tt := range []struct {
		name, self, want string
	}{
		{"two", "vm", "y  192.0.2.7; y  192.0.2.8; y  fd00::7"}, // each address once
		{"localhost", "two", "y  192.0.2.7; y  192.0.2.8; y  fd00::7"},
		{"vm", "nosuch", "y  127.0.0.1"},
		{"[::1]", "vm", ""},
		{"192.0.2.0/24", "vm", ""},
		{"1.2.3.256", "vm", ""},
		{"1.2.65536", "vm", ""},
		{"4294967296", "vm", ""},
		{"4294967295", "vm", "y  255.255.255.255"},
		{"08.1.1.1", "vm", ""},
		{"1.2.3.4.", "vm", ""},
		{"1.2.3.4.5", "vm", ""},
		{"0x", "vm", ""},
		{"", "vm", ""},
		{"UNIX:", "vm", ""},
		{"unix", "vm", ""},
		{"localhost", "nosuch", ""},
	} {
		t.Run(tt.name+" on "+tt.self, func(t *testing.T) {
			conf, err := Parse("conf", strings.NewReader(head+"allow \""+tt.name+"\" : fetch;"), Options{Hostname: tt.self, Resolver: vm})
			if got := describeHosts(conf.Access); got != tt.want {
				t.Errorf("got %s, want %s (%v)", got, tt.want, err)
			}
			if (err == nil) != (tt.want != "") {
				t.Errorf("got %v", err)
			}
		})
	}
	// Without an address of the host's own name, the addresses of localhost are used.
	f := fake{hosts: map[string]string{"localhost": "127.0.0.1"}}
	conf, err := Parse("conf", strings.NewReader(head+"allow LOCALHOST : fetch;"), Options{Hostname: "vm", Resolver: f})
	if got := describeHosts(conf.Access); got != "y  127.0.0.1" {
		t.Errorf("got %s, %v", got, err)
	}
}

// counting is a Resolver that counts look-ups.
type counting struct {
	fake
	mu *sync.Mutex // guards the following
	n  map[string]int
}

func (c counting) Hosts(name string) ([]netip.Addr, error) {
	c.mu.Lock()
	c.n[name]++
	c.mu.Unlock()
	return c.fake.Hosts(name)
}

func TestHostsAreResolvedOnce(t *testing.T) {
	c := counting{vm, new(sync.Mutex), make(map[string]int)}
	if _, err := Parse("conf", strings.NewReader("a 1 dso f /x\n"), Options{Hostname: "vm", Resolver: c}); err != nil || len(c.n) != 0 {
		t.Errorf("without access rules: %v, asked for %v", err, c.n)
	}
	text := head + "allow two, nosuch, two : fetch; allow localhost, nosuch, LOCALHOST : fetch; allow users * : all;"
	if _, err := Parse("conf", strings.NewReader(text), Options{Hostname: "vm", Resolver: c}); err != nil {
		t.Fatal(err)
	}
	if len(c.n) != 3 || c.n["two"] != 1 || c.n["nosuch"] != 1 || c.n["vm"] != 1 {
		t.Errorf("asked for %v", c.n)
	}
}

func TestParseFileErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pmcd.conf")
	if conf, err := ParseFile(t.Context(), path, fakeOptions); conf != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: got %v, %v", conf, err)
	}
	if err := os.WriteFile(path, []byte("a 1 dso f /x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if conf, err := ParseFile(t.Context(), path, fakeOptions); err != nil || len(conf.Agents) != 1 || conf.Access == nil {
		t.Errorf("got %v, %v", conf, err)
	}
	// An access file that cannot be read is an error, unlike a missing one.
	if err := os.Symlink("pmcd.conf.access", path+".access"); err != nil {
		t.Fatal(err)
	}
	if conf, err := ParseFile(t.Context(), path, fakeOptions); err == nil {
		t.Errorf("access loop: got %v", conf)
	}
}

// What is not a regular file is not waited for and has no content.
func TestParseFileOpensRegularFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pmcd.conf")
	for _, tt := range []struct {
		name, want string
		make       func(path string) error
	}{
		{"a FIFO", "not a regular file", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"a directory", "not a regular file", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"a device", "not a regular file", func(path string) error { return os.Symlink("/dev/zero", path) }},
		{"a sparse file", "NUL character", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}},
	} {
		for _, file := range []string{path, path + ".access"} {
			if err := errors.Join(os.RemoveAll(path+".access"), os.RemoveAll(path), os.WriteFile(path, []byte("a 1 dso f /x\n"), 0o600), os.RemoveAll(file), tt.make(file)); err != nil {
				t.Fatal(err)
			}
			if _, err := ParseFile(t.Context(), path, fakeOptions); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s in the place of %s: got %v, want %s", tt.name, filepath.Base(file), err, tt.want)
			}
		}
	}
}

// A hanging is a Resolver of a name server that does not answer.
type hanging struct {
	Resolver
	asked, open chan struct{}
}

func (h *hanging) Hosts(string) ([]netip.Addr, error) {
	h.asked <- struct{}{}
	<-h.open
	return nil, errors.New("no such host")
}

func TestParseFileEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pmcd.conf")
	if err := os.WriteFile(path, []byte("a 1 dso f /x\n[access]\nallow far : all;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &hanging{fakeOptions.Resolver, make(chan struct{}, 10), make(chan struct{})}
	defer close(h.open) // the reading goroutine ends
	opt := fakeOptions
	opt.Resolver = h
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		conf, err := ParseFile(ctx, path, opt)
		if conf != nil {
			err = fmt.Errorf("a configuration of %d agents, and error %v", len(conf.Agents), err)
		}
		ended <- err
	}()
	<-h.asked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestReadErrorRejects(t *testing.T) {
	cause := errors.New("disk on fire")
	for _, text := range []string{"a 1 dso f /x\n", head + "allow * : all;\n", ""} {
		_, err := Parse("conf", iotest.DataErrReader(
			&failing{strings.NewReader(text), cause}), fakeOptions)
		if !errors.Is(err, cause) {
			t.Errorf("%q: got %v", text, err)
		}
	}
}

// failing is a reader that ends with an error.
type failing struct {
	r   *strings.Reader
	err error
}

func (f *failing) Read(b []byte) (int, error) {
	if f.r.Len() == 0 {
		return 0, f.err
	}
	return f.r.Read(b)
}

// broken is a resolver with a bug.
type broken struct{ fake }

func (broken) Port(string) (int, error) { panic("no ports today") }

func TestPanicRejects(t *testing.T) {
	conf, err := Parse("conf", strings.NewReader("a 1 socket inet http\nb 2 dso f /x\n"), Options{Resolver: broken{vm}})
	if err == nil || len(conf.Agents) != 0 || len(conf.Problems) != 1 {
		t.Fatalf("got %v, %+v", err, conf)
	}
	if e := conf.Problems[0]; e.Pos.Line != 1 || !strings.Contains(e.Error(), "internal error: no ports today") || !strings.Contains(e.Error(), "parse_test.go") {
		t.Errorf("got %v", e)
	}
}

func TestBounds(t *testing.T) {
	// More bytes than a configuration may have.
	_, err := Parse("conf", strings.NewReader(strings.Repeat("# x\n", maxFile/4+1)), fakeOptions)
	if err == nil || !strings.Contains(err.Error(), "file of more than") {
		t.Errorf("large file: got %v", err)
	}
	// More mistakes than an ErrorList holds: all of them count for the verdict.
	for _, tt := range []struct {
		last string
		ok   bool
	}{
		{"b 1 dso f /x\n", true},
		{"b\n", false},
		{"b 1 dso f /x\n[access] foo", false},
	} {
		conf, err := Parse("conf", strings.NewReader(strings.Repeat("a\n", 5000)+tt.last), fakeOptions)
		if (err == nil) != tt.ok || len(conf.Problems) != maxProblems+1 {
			t.Errorf("%q: got %v, %d problems", tt.last, err, len(conf.Problems))
		}
	}
	// Many agents with the same domain.
	conf, err := Parse("conf", strings.NewReader(strings.Repeat("a 1 dso f /x\n", 5000)+"b 2 dso f /x\n"), fakeOptions)
	if err != nil || len(conf.Agents) != 2 {
		t.Errorf("got %v, %d agents", err, len(conf.Agents))
	}
}

func TestSystemResolver(t *testing.T) {
	text := head + "allow localhost, " + nohost + " : fetch; allow user root : all; allow group root : all;"
	conf, err := Parse("conf", strings.NewReader(text), Options{Hostname: "localhost"})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(conf.Problems); n != 1 || !conf.Problems[0].Warning {
		t.Errorf("got %d problems, want one: %v", n, conf.Problems)
	}
	if got := describeHosts(conf.Access); !strings.Contains(got, "127.0.0.1") && !strings.Contains(got, "::1") {
		t.Errorf("localhost is %s", got)
	}
	root := access.Peer{Family: access.Unix, HasUser: true}
	if denied, err := conf.Access.Account(root); denied != 0 || err != nil {
		t.Errorf("root is denied %q, %v", denied, err)
	}
	s := system{maxResolve}
	if _, _, err := s.User("0"); err == nil {
		t.Error("a number is a user")
	}
	if _, err := s.Group("0"); err == nil {
		t.Error("a number is a group")
	}
	for _, name := range []string{"", "+80", "-1", "http/tcp"} {
		if n, err := s.Port(name); err == nil {
			t.Errorf("port %q is %d", name, n)
		}
	}
	for name, want := range map[string]int{"http": 80, "domain": 53} {
		if n, err := s.Port(name); n != want {
			t.Errorf("port %s is %d, %v", name, n, err)
		}
	}
	if g, err := s.Groups(2_000_000_001); g != nil || err != nil {
		t.Errorf("groups of an unknown account: %v, %v", g, err)
	}
}

// together is a Resolver that returns when all names are being looked up.
type together struct {
	fake
	asked *sync.WaitGroup
}

func (r together) Hosts(name string) ([]netip.Addr, error) {
	r.asked.Done()
	r.asked.Wait()
	return r.fake.Hosts(name)
}

// All hosts of a section and this host's own name are looked up concurrently, each
// once.
func TestLookupsAtTheSameTime(t *testing.T) {
	r := together{vm, new(sync.WaitGroup)}
	r.asked.Add(4)
	text := head + `allow one.invalid, two, 192.0.2.1, "fd00::1", 10.*, "local:*" : fetch;
		allow two : store; disallow three.invalid, localhost : store;`
	conf, err := Parse("conf", strings.NewReader(text), Options{Hostname: "vm", Resolver: r})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(conf.Problems); n != 2 {
		t.Errorf("got %d problems, want those of two names: %v", n, conf.Problems)
	}
}

// If a name server does not reply, looking up a host fails after the timeout.
func TestDeadNameServer(t *testing.T) {
	was := net.DefaultResolver
	defer func() { net.DefaultResolver = was }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}
	text := head + "allow nowhere.example.com, elsewhere.example.com : all; disallow 192.0.2.2 : store;"
	conf, err := Parse("conf", strings.NewReader(text), Options{Hostname: "localhost", Resolver: system{50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(conf.Problems); n != 2 || !conf.Problems[0].Warning || !conf.Problems[1].Warning {
		t.Errorf("got %d problems, want two warnings: %v", n, conf.Problems)
	}
	if !slices.Equal(conf.LeftOut, conf.Problems) {
		t.Errorf("left out are %v, want the two", conf.LeftOut)
	}
	if got := result(conf.Access.Host(access.Peer{Family: access.Inet, Addr: netip.MustParseAddr("192.0.2.2")})); got != "f-" {
		t.Errorf("192.0.2.2 gets %s, want f-", got)
	}
}
