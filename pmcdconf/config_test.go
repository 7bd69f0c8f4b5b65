package pmcdconf

import (
	"strings"
	"testing"
)

// agent parses one agent line.
func agent(t *testing.T, line string) Agent {
	t.Helper()
	conf, err := Parse("conf", strings.NewReader(line), fakeOptions)
	if err != nil {
		t.Fatal(err)
	}
	if len(conf.Agents) != 1 {
		t.Fatalf("%s: %d agents", line, len(conf.Agents))
	}
	return conf.Agents[0]
}

func TestSame(t *testing.T) {
	for _, tt := range []struct {
		name, a, b string
		want       bool
	}{
		{"another label", "a 1 dso f /x", "b 1 dso f /x", true},
		{"another domain", "a 1 dso f /x", "a 2 dso f /x", false},
		{"another entry point", "a 1 dso f /x", "a 1 dso g /x", false},
		{"another file", "a 1 dso f /x", "a 1 dso f /y", false},
		{"another kind", "a 1 dso f /x", "a 1 pipe binary /x", false},
		{"quotes and blanks", "a 1 pipe binary x y", `"a"  1 "pipe" binary "x"  "y" # z`, true},
		{"notready", "a 1 pipe binary x", "a 1 pipe binary notready x", true},
		{"another argument", "a 1 pipe binary x y", "a 1 pipe binary x z", false},
		{"an argument more", "a 1 pipe binary x", `a 1 pipe binary x ""`, false},
		{"two arguments or one", `a 1 pipe binary x "y z"`, "a 1 pipe binary x y z", false},
		{"a port and its name", "a 1 socket inet 80 x", "a 1 socket inet http x", true},
		{"another port", "a 1 socket inet 80 x", "a 1 socket inet 81 x", false},
		{"another family", "a 1 socket inet 80 x", "a 1 socket ipv6 80 x", false},
		{"the case of the family", "a 1 socket INET 80 x", "a 1 socket inet 80 x", true},
		{"another command", "a 1 socket inet 80 x", "a 1 socket inet 80", false},
		{"the path of a Unix domain socket is ignored", "a 1 socket unix /x y", "a 1 socket unix /z y", true},
		{"another command for it is not", "a 1 socket unix /x y", "a 1 socket unix /x z", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a, b := agent(t, tt.a), agent(t, tt.b)
			if got := a.Same(b); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if got := b.Same(a); got != tt.want {
				t.Errorf("got %v the other way round", got)
			}
		})
	}
}

func TestParams(t *testing.T) {
	a := agent(t, "a 1 dso f /x")
	if got, want := a.Params(7), "dso i:7  lib=/x entry=f"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := a.Pos.String(), "conf:1:1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestKindString(t *testing.T) {
	for k, want := range map[Kind]string{DSO: "dso", Socket: "socket", Pipe: "pipe", 7: "Kind(7)"} {
		if got := k.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestErrorRenderings(t *testing.T) {
	conf, err := Parse("pmcd.conf", strings.NewReader("a \\\n\t1 \\\n \tdos f /x\n"), fakeOptions)
	if err == nil {
		t.Fatal("accepted")
	}
	e := conf.Problems[0]
	for got, want := range map[string]string{
		e.PCP():    "pmcd config[line 1]: Error: expected `dso', `socket' or `pipe'",
		e.Error():  "pmcd.conf:3:3: expected `dso', `socket' or `pipe'",
		e.Detail(): "pmcd.conf:3:3: expected `dso', `socket' or `pipe'\n\t \tdos f /x\n\t \t^",
	} {
		if got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	}
}
