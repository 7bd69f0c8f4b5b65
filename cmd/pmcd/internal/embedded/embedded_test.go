package embedded

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The embedded defaults are for a host that has nothing of PCP's, and whose environment
// names none of its files.
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
			if got := WithoutPCP(root, lookup); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestDescribe(t *testing.T) {
	e, err := Load(false)
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
		{[]net.Addr{unix, tcp("127.0.0.1:44321"), tcp("[::1]:44321")}, []string{"try: pmcdctl list -h localhost:44321", "try: pmcdctl list -h unix:/run/pcp/pmcd.socket"}},
		{[]net.Addr{tcp("0.0.0.0:1")}, []string{"try: pmcdctl list -h localhost:1"}},
		{[]net.Addr{tcp("[::1]:1")}, []string{"try: pmcdctl list -h localhost:1"}},
		{[]net.Addr{tcp("127.0.0.2:1")}, []string{"try: pmcdctl list -h 127.0.0.2:1"}},
		{[]net.Addr{tcp("[fe80::1]:1")}, []string{"try: pmcdctl list -h [fe80::1]:1"}},
		{[]net.Addr{unix}, []string{"try: pmcdctl list -h unix:/run/pcp/pmcd.socket"}},
	} {
		lines := Describe(e, tt.addrs)
		if !slices.Equal(lines[1:], tt.want) {
			t.Errorf("%v: got %q, want %q", tt.addrs, lines[1:], tt.want)
		}
		if !strings.Contains(lines[0], "agents: root, pmcd") {
			t.Errorf("got %q", lines[0])
		}
	}
}
