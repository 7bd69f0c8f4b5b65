package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/pmcdconf"
)

// The embedded defaults are for a host that has nothing of PCP's, and where
// nobody has said that it should.
func TestWithoutPCP(t *testing.T) {
	tests := []struct {
		name  string
		files []string // one that ends in / is a directory, ENTRY->TARGET a link
		env   map[string]string
		want  bool
	}{
		{"nothing", nil, nil, true},
		{"other files", []string{"etc/passwd", "etc/pcp/labels/a", "var/lib/pcp/pmns/.x"}, nil, true},
		{"variables about something else", nil, map[string]string{"PCP_RUN_DIR": "/run", "PCP_TMP_DIR": "/tmp", "PMCD_PORT": "1"}, true},
		{"pcp.conf", []string{"etc/pcp.conf"}, nil, false},
		{"pcp.conf of a local installation", []string{"usr/local/etc/pcp.conf"}, nil, false},
		{"pmcd.conf", []string{"etc/pcp/pmcd/pmcd.conf"}, nil, false},
		{"a name space", []string{"var/lib/pcp/pmns/root"}, nil, false},
		{"a directory in the place of a file", []string{"var/lib/pcp/pmns/root/"}, nil, false},
		{"a link to nowhere", []string{"etc/pcp.conf->/no/such"}, nil, false},
		{"what cannot be looked for", []string{"etc/pcp"}, nil, false},
		{"PCP_CONF", nil, map[string]string{"PCP_CONF": "/no/such"}, false},
		{"PCP_DIR", nil, map[string]string{"PCP_DIR": "/no/such"}, false},
		{"PCP_PMCDCONF_PATH", nil, map[string]string{"PCP_PMCDCONF_PATH": "/no/such"}, false},
		{"PCP_VAR_DIR", nil, map[string]string{"PCP_VAR_DIR": "/no/such"}, false},
		{"PMNS_DEFAULT, set to nothing", nil, map[string]string{"PMNS_DEFAULT": ""}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			for _, name := range tt.files {
				name, target, link := strings.Cut(name, "->")
				path := filepath.Join(root, name)
				err := os.MkdirAll(filepath.Dir(path), 0o777)
				switch {
				case err != nil:
				case link:
					err = os.Symlink(target, path)
				case strings.HasSuffix(name, "/"):
					err = os.Mkdir(path, 0o777)
				default:
					err = os.WriteFile(path, nil, 0o666)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			lookup := func(name string) (string, bool) { v, ok := tt.env[name]; return v, ok }
			if got := withoutPCP(root, lookup); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// What is named and missing is an error everywhere, also where PCP is not
// installed.
func TestNoFallback(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	conf, names, none := filepath.Join(dir, "conf"), filepath.Join(dir, "pmns"), filepath.Join(dir, "none")
	for name, text := range map[string]string{conf: "pmcd 2 dso pmcd_init /none\n", names: "root { pmcd 2:0:0 }\n"} {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	const noConf = "neither -c nor pcp.conf names one"
	tests := []struct {
		name, args, env, want string
	}{
		{"-c", "-n " + names + " -c " + none, "PCP_CONF=/dev/null", none},
		{"-n", "-c " + conf + " -n " + none, "PCP_CONF=/dev/null", none},
		{"-N", "-c " + conf + " -N " + none, "PCP_CONF=/dev/null", none},
		{"PMNS_DEFAULT", "-c " + conf, "PMNS_DEFAULT=" + none, none},
		{"PCP_CONF", "", "PCP_CONF=" + none, noConf},
		{"PCP_DIR", "", "PCP_DIR=" + none, noConf},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"-f", "-i", "127.0.0.1", "-p", "0", "-l", "-", "-s", filepath.Join(t.TempDir(), "s")}, strings.Fields(tt.args)...)
			cmd := exec.CommandContext(t.Context(), self, args...)
			cmd.Env = []string{"PMCD_TEST_RUN=1", "GORACE=atexit_sleep_ms=0", tt.env}
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != cli.ExitError || !strings.Contains(string(out), tt.want) {
				t.Errorf("%v, want exit code %d and %q:\n%s", err, cli.ExitError, tt.want, out)
			}
		})
	}
}

// What is compiled in is without a mistake, and complete: each metric has an
// agent, and each agent is built in.
func TestLoadEmbedded(t *testing.T) {
	e, err := loadEmbedded(false)
	if err != nil {
		t.Fatal(err)
	}
	if len(e.Conf.Problems) > 0 {
		t.Errorf("pmcd.conf: %v", e.Conf.Problems)
	}
	domains := make(map[int]bool)
	for _, a := range e.Conf.Agents {
		domains[a.Domain] = true
		if a.Kind != pmcdconf.DSO || a.Entry != pmcdconf.PMCDEntry && builtin[a.Entry].newAgent == nil {
			t.Errorf("agent %q is not built in: %v", a.Name, a)
		}
		if a.Path != "" {
			t.Errorf("agent %q has a file, %s", a.Name, a.Path)
		}
		if slices.Contains([]string{"trivial", "simple", "txmon", "sample"}, a.Name) {
			t.Errorf("agent %q is a demonstration", a.Name)
		}
	}
	for entry := range e.Names.All("") {
		domain := entry.Domain
		if entry.Domain == 0 {
			domain = entry.PMID.Domain()
		}
		if !domains[domain] {
			t.Errorf("%s is of domain %d, which has no agent", entry.Name, domain)
		}
	}
	if id, _ := e.Names.PMID("pmcd.version"); id.Domain() != 2 {
		t.Errorf("pmcd.version is %v", id)
	}
	if len(e.Labels) == 0 || !e.Labels[0].Optional {
		t.Errorf("labels %v", e.Labels)
	}
}

func TestDescribe(t *testing.T) {
	e, err := loadEmbedded(false)
	if err != nil {
		t.Fatal(err)
	}
	tcp := func(addr string) net.Addr {
		a, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	unix := &net.UnixAddr{Name: "/run/pcp/pmcd.socket", Net: "unix"}
	for _, tt := range []struct {
		addrs []net.Addr
		want  []string
	}{
		{[]net.Addr{unix, tcp("127.0.0.1:44321"), tcp("[::1]:44321")}, []string{"try: pminfo -h localhost:44321", "try: pminfo -h unix:/run/pcp/pmcd.socket"}},
		{[]net.Addr{tcp("0.0.0.0:1")}, []string{"try: pminfo -h localhost:1"}},
		{[]net.Addr{tcp("[::1]:1")}, []string{"try: pminfo -h localhost:1"}},
		{[]net.Addr{tcp("127.0.0.2:1")}, []string{"try: pminfo -h 127.0.0.2:1"}},
		{[]net.Addr{tcp("[fe80::1]:1")}, []string{"try: pminfo -h [fe80::1]:1"}},
		{[]net.Addr{unix}, []string{"try: pminfo -h unix:/run/pcp/pmcd.socket"}},
	} {
		lines := describe(e, tt.addrs)
		if !slices.Equal(lines[1:], tt.want) {
			t.Errorf("%v: got %q, want %q", tt.addrs, lines[1:], tt.want)
		}
		if !strings.Contains(lines[0], "agents: pmcd") {
			t.Errorf("got %q", lines[0])
		}
	}
}
