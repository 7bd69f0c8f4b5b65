package root

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/internal/cgroups"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// Only regular files are read, and no more than the limit.
func TestReadHead(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"five": "fives", "dir/": ""})
	if err := syscall.Mkfifo(root+"/fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	if got := string(readHead(root+"/five", 4)); got != "five" {
		t.Errorf("got %q", got)
	}
	for _, name := range []string{"/dir", "/fifo", "/none"} {
		if b := readHead(root+name, 4); b != nil {
			t.Errorf("%s: got %q", name, b)
		}
	}
}

// A file is parsed again when it changes, and forgotten when it is not used.
func TestParse(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"f": "one", "g": "bad"})
	var p files
	parsed := 0
	get := func(name string) (string, error) {
		return parse(&p, root+"/"+name, 100, func(b []byte) (string, error) {
			parsed++
			if string(b) == "bad" {
				return "", errors.New("it is bad")
			}
			return string(b), nil
		})
	}
	for range 2 {
		if s, err := get("f"); s != "one" || err != nil || parsed != 1 {
			t.Fatalf("%q, %v, parsed %d times", s, err, parsed)
		}
	}
	for range 2 {
		if _, err := get("g"); err == nil || !strings.Contains(err.Error(), "/g: it is bad") || parsed != 2 {
			t.Fatalf("%v, parsed %d times", err, parsed)
		}
	}
	if err := os.Rename(root+"/g", root+"/f"); err != nil {
		t.Fatal(err)
	}
	if _, err := get("f"); err == nil || parsed != 3 {
		t.Errorf("%v, parsed %d times", err, parsed)
	}
	if _, err := get("g"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	p.forget()
	p.forget()
	if len(p.parsed) != 0 {
		t.Errorf("%d files are remembered", len(p.parsed))
	}
}

func FuzzStores(f *testing.F) {
	f.Add([]byte(`[{"id":"a","names":["b"]}]`))
	f.Add([]byte(`{"Name":"/web","Config":{"Hostname":"h"},"State":{"Running":true,"Pid":-5}}`))
	f.Add([]byte(`{"hostname":"h","annotations":{"nerdctl/name":"x"}}`))
	f.Add([]byte("conmon\x00-c\x00" + idA + "\x00-n\x00name"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if list, err := parseStore(b); err == nil && !json.Valid(b) {
			t.Errorf("%v of %q", list, b)
		}
		if c, err := parseDocker(b); err == nil && !json.Valid(b) {
			t.Errorf("%v of %q", c, b)
		}
		if s, err := parseSpec(b); err == nil && s.name() != "" && !cgroups.IsName(s.name()) {
			t.Errorf("the name %q", s.name())
		}
		if m, ok := parseMonitor(strings.Split(string(b), "\x00")); ok && (!cgroups.IsID(m.id) || m.name != "" && !cgroups.IsName(m.name)) {
			t.Errorf("%+v", m)
		}
		if name := firstLine(b); strings.ContainsAny(name, "\n\r") && isHostName(name) {
			t.Errorf("the host name %q", name)
		}
		parent, name, _ := strings.Cut(string(b), "/")
		if id, engine := cgroups.Container(parent, name); (id == "") != (engine == "") || id != "" && !cgroups.IsName(id) {
			t.Errorf("%q, %q", id, engine)
		}
	})
}
