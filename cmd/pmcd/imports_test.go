package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gopcp/pmcd"

// mayImport has a row for each package of the module but those of cmd/pmcd:
// what it may depend on, directly or not, besides the standard library. The
// daemon gets its agents from cmd/pmcd, so that its tests start no process and
// a build without cgo or without procfs is a change in one file; agents and pdu
// stay small because a plugin must be built with the same version of all that
// they import.
var mayImport = map[string][]string{
	"pdu":                  nil,
	"access":               nil,
	"pmcdconf":             {"access"},
	"pmnsload":             {"pdu"},
	"agents":               {"pdu"},
	"agents/wire":          {"agents", "pdu"},
	"agents/agenttest":     {"agents", "agents/wire", "pdu"},
	"agents/proc":          {"agents", "agents/wire", "pdu", "golang.org/x/sys"},
	"agents/dsohost":       {"agents", "agents/proc", "agents/wire", "pdu", "golang.org/x/sys"},
	"agents/rootchild":     {"access", "agents", "agents/proc", "agents/wire", "pdu", "pmcdconf", "golang.org/x/sys"},
	"agents/pmcd":          {"agents", "agents/pmda", "pdu"},
	"agents/goplugin":      {"agents", "pdu"},
	"agents/serve":         {"access", "agents", "agents/serve/getopt", "agents/wire", "pdu", "pmcdconf"},
	"agents/pmda":          {"agents", "pdu"},
	"agents/pmda/event":    {"pdu"},
	"agents/pmda/pmdatest": {"agents", "agents/agenttest", "agents/pmda", "agents/wire", "pdu", "pmnsload"},
	"agents/pmda/cache":    {"access", "pdu", "pmcdconf"},
	"agents/sysfile":       nil,
	"agents/linux":         {"access", "agents", "agents/pmda", "agents/pmda/cache", "agents/pmdaroot", "agents/sysfile", "agents/wire", "pdu", "pmcdconf", "github.com/prometheus/procfs", "golang.org/x/sys"},
	"agents/jbd2":          {"access", "agents", "agents/pmda", "agents/pmda/cache", "agents/sysfile", "pdu", "pmcdconf"},
	"agents/kvm":           {"agents", "agents/pmda", "agents/sysfile", "pdu", "golang.org/x/sys"},
	"agents/linuxproc":     {"agents", "agents/pmda", "agents/pmdaroot", "agents/sysfile", "pdu"},
	"agents/xfs":           {"access", "agents", "agents/pmda", "agents/pmda/cache", "agents/sysfile", "pdu", "pmcdconf"},
	"agents/pmdaroot":      {"pdu"},
	"agents/linuxhosts":    nil,
	"agents/trivial":       {"agents", "agents/pmda", "pdu"},
	"agents/simple":        {"access", "agents", "agents/pmda", "agents/pmda/cache", "pdu", "pmcdconf"},
	"agents/txmon":         {"agents", "agents/pmda", "pdu", "golang.org/x/sys"},
	"daemon": {"access", "agents", "agents/wire", "agents/pmcd", "agents/pmda", "pdu", "pmcdconf", "pmnsload",
		"go.uber.org/zap", "go.uber.org/multierr", "github.com/fsnotify/fsnotify", "golang.org/x/sys"},
	"etc":                      nil,
	"agents/serve/getopt":      nil,
	"agents/pmdaroot/roottest": {"pdu"},
	"bench": {"access", "agents", "agents/pmda", "agents/serve", "agents/serve/getopt", "agents/wire", "pdu", "pmcdconf",
		"golang.org/x/sys"},
}

// mustNotImport is what a package must not import itself, although it is in
// the standard library.
var mustNotImport = map[string][]string{
	"pdu":      {"os", "net", "log", "os/exec"},
	"access":   {"os", "log", "os/exec"},
	"pmcdconf": {"log", "os/exec"},
	"pmnsload": {"log"}, // its language can run commands
	"agents":   {"os", "os/exec", "plugin", "log"},
	// An agent that needs more imports it itself.
	"agents/pmda": {"os", "os/exec", "plugin", "log"},
	// No children, no flags, no end of the process: that is cmd/pmcd's.
	"daemon": {"os/exec", "os/signal", "plugin", "flag", "log"},
}

// onlyIn are imports that belong to one place.
var onlyIn = map[string]string{
	"github.com/spf13/cobra": "cmd/pmcd",
	"github.com/spf13/pflag": "cmd/pmcd",
	"plugin":                 "agents/goplugin",
	module + "/etc":          "cmd/pmcd",
}

func TestImports(t *testing.T) {
	type pkg struct {
		ImportPath, Name string
		Standard         bool
		Imports, Deps    []string
	}
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Standard,Imports,Deps", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	standard := map[string]bool{"C": true, "unsafe": true}
	var ours []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Standard {
			standard[p.ImportPath] = true
		}
		if strings.HasPrefix(p.ImportPath, module+"/") {
			ours = append(ours, p)
		}
	}
	if len(ours) < 5 {
		t.Fatalf("go list knows only %d packages of %s", len(ours), module)
	}
	for _, p := range ours {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, i := range p.Imports {
			if where, ok := onlyIn[i]; ok && where != name {
				t.Errorf("%s imports %s: only %s may", name, i, where)
			}
			if slices.Contains(mustNotImport[name], i) {
				t.Errorf("%s imports %s", name, i)
			}
		}
		if name == "cmd/pmcd" || strings.HasPrefix(name, "cmd/pmcd/") {
			continue
		}
		allowed, ok := mayImport[name]
		if !ok && p.Name == "main" {
			continue // it puts together what has rows
		}
		if !ok {
			t.Errorf("%s has no row in the table of imports", name)
			continue
		}
		for _, d := range p.Deps {
			if !standard[d] && !slices.ContainsFunc(allowed, func(a string) bool { return within(d, a) }) {
				t.Errorf("%s depends on %s", name, d)
			}
		}
	}
}

// within reports whether a package is the one that the table names: a package
// of our module exactly, a package below a module of others.
func within(dep, allowed string) bool {
	if strings.Contains(allowed, ".") {
		return dep == allowed || strings.HasPrefix(dep, allowed+"/")
	}
	return dep == module+"/"+allowed
}
