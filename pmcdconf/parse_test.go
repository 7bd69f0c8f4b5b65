package pmcdconf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/gopcp/pmcd/access"
)

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
