package pmcdconf

import (
	"flag"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var randomFiles = flag.Int("random", 200, "how many random files to give to the real pmcd")

// Pieces of configurations, half of them in the wrong place.
var (
	agentPieces = strings.Split("\na|\nb |\nc 1 |\nd 2 dso|\ne 3 pipe |\nf 4 socket |\ng 5 dso f /x|\nh 6 pipe binary|\ni 7 socket inet 80|1|2|0|510|511|-1|x1|dso|DSO|socket|pipe|text|f|/x|/y z|x|inet|ipv6|unix|80|http|nosuch|99999|"+
		"binary|notready|NOTREADY|\"|\"a b\"|\"\"|\"x#y\"|\\|\\\"|\\#|#|# c|\n|\n|\n|\n|\\\n|\r\n|[|]|,|;|:|a 1 dso f /x\n|b 2 pipe binary x\n", "|")
	accessPieces = strings.Split("allow|disallow|ALLOW|host|hosts|user|users|group|*|*|:|:|:|;|;|;|,|,|fetch|store|all|all|except|maximum|3|0|"+
		"connections|unlimited|192.0.2.2|192.0.2.*|192.*|.*|\":*\"|\"fe80::1:*\"|\"unix:\"|\"local:\"|localhost|root|daemon|129.*.1|\"1..*\"|"+
		"\n|\n|# c\n|\"|\\|[|]|allow 192.0.2.2 : fetch;|disallow * : store;|allow * : all, maximum 2 connections;|allow users root : all;", "|")
	blanks = []string{" ", " ", " ", "\t", ""}
)

func pick(r *rand.Rand, list []string) string { return list[r.IntN(len(list))] }

func randomText(r *rand.Rand, pieces []string, n int) string {
	var b strings.Builder
	for range r.IntN(n) {
		b.WriteString(pick(r, pieces))
		b.WriteString(pick(r, blanks))
	}
	return b.String()
}

// asked is the system's resolver, and records the hosts that it looks up.
type asked struct {
	Resolver
	hosts map[string]bool
}

func (a asked) Hosts(name string) ([]netip.Addr, error) {
	a.hosts[name] = true
	return a.Resolver.Hosts(name)
}

// TestPeerRandom compares the parsers on random files. Names that would make the real
// pmcd send a request to a name server are left out.
func TestPeerRandom(t *testing.T) {
	pmcd := oracle(t)
	self, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	compared := 0
	for i := range *randomFiles {
		r := rand.New(rand.NewPCG(1, uint64(i)))
		tt := fileCase{name: "random", conf: randomText(r, agentPieces, 30)}
		if i%2 == 1 {
			tt.conf = "a 1 dso f /x\n[access]\n" + randomText(r, accessPieces, 40)
		}
		if i%8 == 1 {
			tt.conf, tt.access = "a 1 dso f /x\n", randomText(r, accessPieces, 40)+"\n"
		}
		res := asked{system{maxResolve}, make(map[string]bool)}
		path := filepath.Join(dir, "conf")
		for name, text := range map[string]string{path: tt.conf, path + ".access": tt.access} {
			if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if tt.access == "" {
			os.Remove(path + ".access")
		}
		conf, err := ParseFile(t.Context(), path, Options{Resolver: fenced{res}})
		if conf == nil {
			t.Fatal(err)
		}
		delete(res.hosts, self)
		if len(res.hosts) > 0 || known(&tt, conf) {
			continue
		}
		compared++
		got, want := ours(t, path), verify(t, pmcd, path)
		if d := diff(got, want); d != "" {
			t.Errorf("%q\n%q\n%s\nsays\n%s\npmcd:\n%s", tt.conf, tt.access, d, got.said, want.said)
		}
	}
	t.Logf("%d of %d compared", compared, *randomFiles)
}

// fenced records all hosts that are looked up, and looks up only this host.
type fenced struct{ asked }

func (f fenced) Hosts(name string) ([]netip.Addr, error) {
	if self, _ := os.Hostname(); name == self {
		return f.asked.Hosts(name)
	}
	f.hosts[name] = true
	return nil, os.ErrNotExist
}

// known reports whether the verdicts have one of the differences in fileCases.
func known(tt *fileCase, conf *Config) bool {
	for _, e := range conf.Problems {
		switch e.Err.Error() {
		case "unterminated quoted string":
			// In the access section pmcd continues in an undefined way.
			if strings.Contains(tt.conf, "[access]") || tt.access != "" {
				return true
			}
		case "empty or incomplete permissions list":
			return true
		}
		for _, text := range []string{"is not absolute", "user '*'", "'local:'", "',' or ':' expected after"} {
			if strings.Contains(e.Err.Error(), text) {
				return true
			}
		}
	}
	return false
}
