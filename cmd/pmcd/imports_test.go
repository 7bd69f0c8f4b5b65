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

// mayImport has a row for each package of the module but those of cmd/pmcd, which are in
// commandImports:
// what it may depend on, directly or not, besides the standard library. The
// daemon gets its agents from cmd/pmcd, so that its tests start no process and
// a build without cgo or without procfs is a change in one file; agents and pdu
// stay small because a plugin must be built with the same version of all that
// they import.
//
// The table is the plan, too: a package that does not exist yet has its row, and
// what is still different is in the table exceptions.
var mayImport = map[string][]string{
	"pdu":      nil,
	"access":   nil,
	"pmcdconf": {"access"},
	"pmnsload": {"pdu"},
	"etc":      nil,

	// What authors of agents use.
	"agents":               {"pdu"},
	"agents/pmda":          {"agents", "pdu"},
	"agents/pmda/event":    {"pdu"},
	"agents/pmda/cache":    {"access", "pdu", "pmcdconf"},
	"agents/pmda/pmdatest": {"agents", "agents/agenttest", "agents/pmda", "agents/rawio", "agents/transport", "agents/wire", "pdu", "pmnsload"},
	"agents/agenttest":     {"agents", "agents/rawio", "agents/transport", "agents/wire", "pdu"},
	"agents/logtext":       nil,
	"agents/serve":         {"access", "agents", "agents/logtext", "agents/rawio", "agents/serve/getopt", "agents/transport", "agents/wire", "pdu", "pmcdconf"},
	"agents/serve/getopt":  nil,

	// How pmcd reaches an agent.
	"agents/rawio":             nil,
	"agents/transport":         {"agents", "pdu"},
	"agents/wire":              {"agents", "agents/rawio", "agents/transport", "pdu"},
	"agents/pmdaroot":          {"pdu"},
	"agents/pmdaroot/roottest": {"pdu"},

	// How an agent comes to life.
	"agents/launch/child":      {"golang.org/x/sys"},
	"agents/launch/roothelper": {"access", "agents/launch/child", "pmcdconf", "golang.org/x/sys"},
	"agents/launch/dsohost":    {"agents/launch/child", "golang.org/x/sys"},
	"agents/launch/goplugin":   {"agents", "pdu"},

	// Agents.
	"agents/builtin/internal/metrics": {"agents", "agents/pmda", "pdu"},
	"agents/builtin/internal/sysfile": {"agents/rawio"},
	"agents/builtin/pmcd":             {"agents", "agents/pmda", "pdu"},
	"agents/builtin/linux":            {"access", "agents", "agents/builtin/internal/metrics", "agents/builtin/internal/sysfile", "agents/pmda", "agents/pmda/cache", "agents/pmdaroot", "agents/rawio", "pdu", "pmcdconf", "github.com/prometheus/procfs", "golang.org/x/sys"},
	"agents/builtin/proc":             {"agents", "agents/builtin/internal/metrics", "agents/builtin/internal/sysfile", "agents/pmda", "agents/pmdaroot", "agents/rawio", "pdu"},
	"agents/builtin/xfs":              {"access", "agents", "agents/builtin/internal/metrics", "agents/builtin/internal/sysfile", "agents/pmda", "agents/pmda/cache", "agents/rawio", "pdu", "pmcdconf"},
	"agents/builtin/jbd2":             {"access", "agents", "agents/builtin/internal/metrics", "agents/builtin/internal/sysfile", "agents/pmda", "agents/pmda/cache", "agents/rawio", "pdu", "pmcdconf"},
	"agents/builtin/kvm":              {"agents", "agents/builtin/internal/sysfile", "agents/pmda", "agents/rawio", "pdu", "golang.org/x/sys"},
	"agents/builtin/trivial":          {"agents", "agents/pmda", "pdu"},
	"agents/builtin/simple":           {"access", "agents", "agents/pmda", "agents/pmda/cache", "pdu", "pmcdconf"},
	"agents/builtin/txmon":            {"agents", "agents/pmda", "pdu", "golang.org/x/sys"},
	"agents/linuxhosts":               nil,
	"agents/internal/testutil":        nil,

	// The daemon. Diag formats what it is given; agentset knows no clients.
	"daemon/internal/agentset": {"access", "agents", "agents/logtext", "agents/rawio", "agents/transport", "agents/wire", "daemon/internal/diag", "pdu", "pmcdconf"},
	"daemon/internal/diag":     {"agents", "agents/transport", "pdu"},
	"daemon/internal/conn":     {"agents/rawio", "pdu", "golang.org/x/sys"},
	"daemon/internal/testutil": {"agents/logtext"},
	"daemon/internal/routes": {"access", "agents", "agents/logtext", "agents/rawio", "agents/transport", "agents/wire", "daemon/internal/agentset", "daemon/internal/diag",
		"pdu", "pmcdconf", "pmnsload"},
	"daemon/internal/session": {"access", "agents", "agents/logtext", "agents/rawio", "agents/transport", "agents/wire", "daemon/internal/agentset", "daemon/internal/conn",
		"daemon/internal/diag", "daemon/internal/routes", "pdu", "pmcdconf", "pmnsload", "golang.org/x/sys"},
	"daemon/internal/reload": {"access", "agents", "agents/logtext", "agents/rawio", "agents/transport", "agents/wire", "daemon/internal/agentset", "daemon/internal/conn",
		"daemon/internal/diag", "daemon/internal/routes", "daemon/internal/session", "pdu", "pmcdconf", "pmnsload",
		"github.com/fsnotify/fsnotify", "golang.org/x/sys"},
	"daemon": {"access", "agents", "agents/builtin/pmcd", "agents/logtext", "agents/pmda", "agents/rawio", "agents/transport", "agents/wire",
		"daemon/internal/agentset", "daemon/internal/conn", "daemon/internal/diag", "daemon/internal/reload", "daemon/internal/routes", "daemon/internal/session",
		"pdu", "pmcdconf", "pmnsload", "github.com/fsnotify/fsnotify", "golang.org/x/sys"},
	"docs/docstest": nil,

	"bench": {"access", "agents", "agents/logtext", "agents/pmda", "agents/rawio", "agents/serve", "agents/serve/getopt", "agents/transport", "agents/wire", "pdu", "pmcdconf",
		"golang.org/x/sys"},
}

// commandImports has a row for each package below cmd/pmcd/internal: what it may import
// itself, besides the standard library. ./ stands for cmd/pmcd/internal/. The programs
// pmcd and pmcdctl put these packages together: a package that must know neither the
// options (cli) nor the daemon gets what it needs from them.
var commandImports = map[string][]string{
	// What all others may use.
	"message": nil,
	"logging": {"agents/logtext", "go.uber.org/zap/zapcore", "golang.org/x/sys"},
	"version": {"agents/builtin/pmcd"},

	// What pmcd is told.
	"cli":      {"./logging", "agents/serve/getopt", "daemon", "pmcdconf"},
	"embedded": {"daemon", "etc", "pmcdconf", "pmnsload"},

	// How pmcd is started, watched and asked.
	"systemd":    {"./message", "daemon", "golang.org/x/sys"},
	"background": {"./cli", "./logging", "./systemd", "agents/launch/child", "golang.org/x/sys"},
	"ctl":        nil,
	"status":     {"./cli", "./ctl", "agents/builtin/pmcd", "daemon"},

	// Agents.
	"privsep": {"agents/launch/child", "agents/launch/goplugin", "agents/launch/roothelper", "pmcdconf"},
	"open": {"./privsep", "access", "agents", "agents/builtin/jbd2", "agents/builtin/kvm", "agents/builtin/linux", "agents/builtin/proc",
		"agents/builtin/simple", "agents/builtin/trivial", "agents/builtin/txmon", "agents/builtin/xfs", "agents/launch/child", "agents/launch/dsohost",
		"agents/launch/goplugin", "agents/launch/roothelper", "agents/pmdaroot", "agents/serve", "agents/transport", "agents/wire", "pmcdconf"},
	"verify": {"./cli", "./open", "./privsep", "access", "agents/launch/dsohost", "agents/launch/goplugin", "pmcdconf", "pmnsload"},

	// For tests.
	"booted":   {"golang.org/x/sys"},
	"peer":     nil,
	"pmcdtest": {"./peer", "agents", "agents/wire", "pdu"},
}

// exceptions are dependencies that mayImport forbids and that are still there. A
// line goes when its dependency goes.
var exceptions = map[string]string{}

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
	"daemon":                   {"os/exec", "os/signal", "plugin", "flag", "log"},
	"daemon/internal/agentset": {"os/exec", "os/signal", "plugin", "flag", "log", "net"},
	"daemon/internal/reload":   {"os/exec", "os/signal", "plugin", "flag", "log", "net"},
	"daemon/internal/session":  {"os/exec", "os/signal", "plugin", "flag", "log"},
	"daemon/internal/diag":     {"os", "os/exec", "os/signal", "plugin", "flag", "log", "net"},
}

// onlyIn are imports that belong to one place.
var onlyIn = map[string]string{
	"github.com/spf13/cobra": "cmd/pmcd/pmcdctl",
	"github.com/spf13/pflag": "cmd/pmcd/pmcdctl",
	"plugin":                 "agents/launch/goplugin",
	module + "/etc":          "cmd/pmcd/internal/embedded",
	// Package zap brings net/http along, which is 2 MB of memory.
	"go.uber.org/zap":         "none",
	"go.uber.org/zap/zapcore": "cmd/pmcd/internal/logging",
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
	seen := make(map[string]bool)
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
		if name, ok := strings.CutPrefix(name, "cmd/pmcd/internal/"); ok {
			allowed, ok := commandImports[name]
			if !ok {
				t.Errorf("cmd/pmcd/internal/%s has no row in the table of imports", name)
			}
			for _, i := range p.Imports {
				if !standard[i] && !slices.ContainsFunc(allowed, func(a string) bool {
					return within(i, strings.Replace(a, "./", "cmd/pmcd/internal/", 1))
				}) {
					t.Errorf("cmd/pmcd/internal/%s imports %s", name, i)
				}
			}
			continue
		}
		if p.Name == "main" && slices.Contains(p.Deps, "testing") {
			t.Errorf("%s depends on a package for tests", name)
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
			if standard[d] || slices.ContainsFunc(allowed, func(a string) bool { return within(d, a) }) {
				continue
			}
			e := name + " on " + strings.TrimPrefix(d, module+"/")
			if _, ok := exceptions[e]; ok {
				seen[e] = true
				continue
			}
			t.Errorf("%s depends on %s", name, d)
		}
	}
	for e := range exceptions {
		if !seen[e] {
			t.Errorf("the exception %q is not needed any more", e)
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
