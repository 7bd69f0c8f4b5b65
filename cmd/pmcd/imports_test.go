package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/gopcp/pmcd"

// mayImport is what each package of the module imports itself, besides the standard
// library: no less, and no more. It has no rows for main packages, nor for packages in
// cmd/pmcd outside of internal: they put together what has rows. A line that starts with
// spaces continues the row above. After a line "in DIRECTORY", packages are named as seen
// from there, and imports from there begin with ./
//
// The daemon gets its agents from cmd/pmcd, so that its tests start no process and a build
// without cgo or without procfs is a change in one file.
const mayImport = `
access:
agents: pdu
bench/attack: pdu golang.org/x/sys
daemon: daemon/internal/agentset daemon/internal/clients daemon/internal/conn daemon/internal/diag
  daemon/internal/labels daemon/internal/quota daemon/internal/reload daemon/internal/routes daemon/internal/sasl daemon/internal/session daemon/internal/tlspolicy
  agents/builtin/pmcd internal/launch/child internal/logtext internal/transport internal/wire
  pdu pmcdconf pmcdconf/debugopt golang.org/x/sys
docs/docstest:
etc:
pdu: internal/pduformat
pdu/pdutest: pdu
pdu/pmapi: pdu github.com/xdg-go/scram
pmcdconf: access pdu pmcdconf/regular
pmnsload: pdu pmcdconf/regular

# PCP's other files and options. Agents use the first three, so they are small.
in pmcdconf
debugopt:
regular:
pcpconf: ./regular
hostlabels: ./regular pmcdconf
tlsconf: ./regular pmcdconf

# What authors of agents use.
in agents
agenttest: agents internal/transport internal/transport/transporttest internal/wire pdu
mmv: internal/mmvformat internal/safepath pdu
pmda: agents internal/nametree pdu
pmda/cache: internal/safepath internal/savefile pdu pmcdconf/pcpconf
pmda/event: pdu
pmda/pmdatest: ./pmda agents internal/testutil internal/transport internal/transport/transporttest pdu pmnsload
serve: ./serve/getopt agents internal/logfile internal/logtext internal/responder internal/safepath
  pdu pmcdconf/debugopt pmcdconf/pcpconf
serve/getopt:
# What authors of programs use.
trace: internal/tracepdu

# What the daemon, the agents and the programs share.
in internal
kernel:
logfile: ./safepath
logtext:
safepath:
saslhelper: ./launch/child
# Files and protocols that two packages know.
mmvformat: pmcdconf/pcpconf
nametree: pdu
pduformat:
pmdaroot: pdu pmcdconf/pcpconf
pmdaroot/roottest: pdu
savefile: ./safepath
tracepdu:
# How pmcd reaches an agent.
fairqueue:
rawio:
relay: ./pduformat pdu
responder: agents pdu
transport: ./fairqueue ./responder agents pdu
transport/container: ./transport pdu
transport/transporttest: ./fairqueue ./transport agents pdu
wire: ./fairqueue ./rawio ./transport pdu
# How an agent comes to life.
launch/child: pmcdconf/regular golang.org/x/sys
launch/dsohost: ./launch/child pmcdconf/regular
launch/goplugin: agents pmcdconf/regular
launch/roothelper: ./launch/child pdu pmcdconf pmcdconf/regular golang.org/x/sys
launch/shared: ./launch/child ./launch/roothelper pmcdconf golang.org/x/sys
# For tests.
linuxhosts:
testutil: golang.org/x/sys

# Agents.
in agents/builtin
cifs: ./internal/sysfile agents agents/pmda agents/pmda/cache agents/serve pdu
internal/cgroups: ./internal/sysfile
internal/ids: agents/pmda/cache pdu
internal/inroot: internal/kernel golang.org/x/sys
internal/metrics: agents/pmda pdu
internal/pidfile: pmcdconf/regular
internal/sysfile: internal/rawio
internal/zone: pmcdconf/regular
jbd2: ./internal/ids ./internal/metrics ./internal/sysfile agents agents/pmda agents/serve pdu
kvm: ./internal/sysfile agents agents/pmda agents/serve
  pdu pmcdconf/pcpconf pmcdconf/regular golang.org/x/sys
linux: ./internal/ids ./internal/inroot ./internal/metrics ./internal/sysfile
  agents agents/pmda agents/pmda/cache internal/pmdaroot internal/rawio agents/serve
  pdu pmcdconf/pcpconf pmcdconf/regular github.com/prometheus/procfs golang.org/x/sys
mmv: agents internal/mmvformat internal/logtext agents/serve
  pdu pmcdconf/debugopt pmcdconf/hostlabels pmcdconf/regular
mmv/mmvtest: internal/mmvformat
nfsclient: ./internal/ids ./internal/metrics ./internal/sysfile agents agents/pmda agents/serve pdu
openmetrics: agents internal/nametree internal/savefile internal/launch/roothelper agents/serve
  pdu pmcdconf pmcdconf/pcpconf pmcdconf/regular golang.org/x/text internal/safepath
pmcd: ./internal/pidfile ./internal/zone agents agents/pmda pdu pmcdconf/regular pmcdconf/pcpconf
pmimport: ./internal/ids ./internal/metrics ./internal/pidfile ./internal/zone agents agents/pmda agents/serve pdu
proc: ./internal/cgroups ./internal/metrics ./internal/sysfile agents agents/pmda internal/pmdaroot agents/serve
  internal/safepath pdu pmcdconf/pcpconf pmcdconf/regular
root: ./internal/cgroups ./internal/inroot ./internal/pidfile agents agents/pmda agents/pmda/cache internal/pmdaroot internal/safepath agents/serve
  pdu pmcdconf/regular golang.org/x/sys
simple: agents agents/pmda agents/pmda/cache agents/serve pdu pmcdconf/pcpconf pmcdconf/regular
trace: ./internal/metrics access agents internal/tracepdu agents/pmda agents/serve
  pdu pmcdconf pmcdconf/debugopt
trivial: agents agents/pmda agents/serve pdu
txmon: agents agents/pmda agents/serve pdu pmcdconf/pcpconf pmcdconf/regular golang.org/x/sys
xfs: ./internal/metrics ./internal/sysfile agents agents/pmda agents/pmda/cache agents/serve pdu

# The daemon. Diag formats what it is given; agentset knows no clients.
in daemon/internal
agentset: ./diag access internal/logtext internal/safepath internal/transport internal/wire pdu pmcdconf
agentsettest: ./agentset ./diag ./routes agents internal/testutil internal/transport internal/wire pdu pmcdconf pmnsload
calls: ./agentset ./clients ./diag ./routes ./slots agents internal/transport pdu internal/relay
clients: ./agentset ./conn ./diag ./routes access internal/fairqueue internal/logtext internal/transport pdu
conn: ./quota internal/fairqueue internal/rawio internal/safepath pdu golang.org/x/sys
diag: internal/logtext internal/transport pdu
labels: ./diag pdu pmcdconf/hostlabels pmcdconf/regular
logtest: internal/logtext
reload: ./agentset ./diag ./labels ./routes ./session ./tlspolicy access internal/logtext
  pdu pmcdconf pmcdconf/hostlabels pmcdconf/regular pmnsload github.com/fsnotify/fsnotify golang.org/x/sys
names: ./agentset ./calls ./clients ./routes internal/transport pdu pmnsload internal/relay
quota: internal/fairqueue
repeated: pdu internal/pduformat
routes: ./agentset pmnsload
tlspolicy: pmcdconf pmcdconf/regular pmcdconf/tlsconf
slots: internal/fairqueue
sasl: ./diag internal/fairqueue internal/logtext pdu
session: ./agentset ./calls ./clients ./conn ./diag ./labels ./names ./quota ./repeated ./routes ./sasl ./slots ./tlspolicy access
  internal/fairqueue internal/logtext internal/transport pdu internal/relay

# The programs pmcd and pmcdctl put these packages together: a package that must know
# neither the options (cli) nor the daemon gets what it needs from them.
in cmd/pmcd/internal
# What all others may use.
message: internal/logtext
table: ./message
logging: internal/logfile internal/logtext go.uber.org/zap/zapcore
version: pmcdconf/pcpconf
# What pmcd is told.
rundir:
cli: ./logging ./rundir internal/logtext agents/serve/getopt daemon
  pmcdconf/debugopt pmcdconf/pcpconf pmcdconf/tlsconf
clientcert: pmcdconf pmcdconf/pcpconf pmcdconf/tlsconf
embedded: daemon etc pmcdconf pmcdconf/hostlabels pmnsload
# How pmcd is started, watched and asked.
grouplimit: pmcdconf/regular github.com/prometheus/procfs
systemd: ./message daemon golang.org/x/sys
background: ./cli ./logging ./systemd internal/launch/child internal/safepath pmcdconf/regular golang.org/x/sys
ctl: internal/safepath pmcdconf/regular
status: ./cli ./ctl daemon pmcdconf/pcpconf
# Agents.
privsep: internal/launch/child internal/launch/goplugin internal/launch/roothelper internal/launch/shared
  internal/logtext internal/safepath agents/serve pmcdconf pmcdconf/regular golang.org/x/sys
open: ./privsep access agents agents/builtin/cifs agents/builtin/jbd2 agents/builtin/kvm agents/builtin/linux
  agents/builtin/mmv agents/builtin/nfsclient agents/builtin/pmimport agents/builtin/proc agents/builtin/root
  agents/builtin/simple
  agents/builtin/trace agents/builtin/trivial agents/builtin/txmon agents/builtin/xfs internal/launch/child internal/launch/dsohost
  internal/launch/goplugin
  internal/launch/roothelper internal/logtext internal/pmdaroot agents/serve internal/transport
  internal/transport/container internal/wire pmcdconf
verify: ./cli ./open ./privsep access internal/launch/child internal/launch/dsohost internal/launch/goplugin
  daemon pmcdconf pmcdconf/hostlabels pmcdconf/regular pmnsload
checkagents: ./cli ./ctl ./embedded ./message ./open ./privsep ./table access internal/launch/child internal/launch/roothelper
  internal/logtext internal/transport internal/wire pdu pmcdconf pmcdconf/regular pmnsload golang.org/x/sys internal/safepath
# For tests.
booted: ./peer
pathtrace:
peer: internal/testutil golang.org/x/sys pdu/pdutest
pmcdtest: ./peer agents agents/serve internal/testutil pdu pdu/pdutest pdu/pmapi

# What pmcdctl shows of metrics. Only its main package knows options.
in cmd/pmcd/pmcdctl/internal
scale: pdu pdu/pmapi
metrics: cmd/pmcd/internal/message cmd/pmcd/internal/table pdu pdu/pmapi
watch: ./metrics ./scale cmd/pmcd/internal/message pdu golang.org/x/sys
compare: ./metrics cmd/pmcd/internal/table pdu pdu/pmapi pmcdconf/regular

# The exporter for Prometheus. Only web knows HTTP and text formats, only gather knows pmcd.
in cmd/pmcd/pmcd-prometheus/internal
gather: pdu pdu/pmapi github.com/prometheus/client_model github.com/prometheus/common
web: github.com/prometheus/client_model github.com/prometheus/common golang.org/x/sync
`

// mayDependOn is all that packages for authors depend on besides the standard library,
// directly or not. It is short because a plugin must be built with the same version of all
// of it.
var mayDependOn = map[string][]string{
	"pdu":    {"internal/pduformat"},
	"access": nil,
	"pdu/pmapi": {
		"internal/pduformat", "pdu", "github.com/xdg-go/scram", "github.com/xdg-go/stringprep", "golang.org/x/text",
	},
	"pmcdconf": {"access", "internal/pduformat", "pdu", "pmcdconf/regular"},
	"pmnsload": {"internal/pduformat", "pdu", "pmcdconf/regular"},
	"agents":   {"internal/pduformat", "pdu"},
	"agents/mmv": {
		"internal/mmvformat", "internal/safepath", "internal/pduformat", "pdu", "pmcdconf/pcpconf", "pmcdconf/regular",
	},
	"agents/pmda":  {"agents", "internal/nametree", "internal/pduformat", "pdu"},
	"agents/trace": {"internal/tracepdu"},
	"agents/serve": {
		"agents", "internal/responder", "internal/logfile", "internal/logtext", "internal/safepath", "agents/serve/getopt", "internal/pduformat", "pdu",
		"pmcdconf/debugopt", "pmcdconf/pcpconf", "pmcdconf/regular",
	},
}

// mustNotImport is what a package must not import itself, although it is in
// the standard library.
var mustNotImport = map[string][]string{
	"pdu":       {"os", "net", "log", "os/exec"},
	"pdu/pmapi": {"log", "os/exec", "net/http", "C"},
	"access":    {"os", "log", "os/exec"},
	"pmcdconf":  {"log", "os/exec"},
	"pmnsload":  {"log"}, // its language can run commands
	"agents":    {"os", "os/exec", "plugin", "log"},
	// An agent that needs more imports it itself.
	"agents/pmda": {"os", "os/exec", "plugin", "log"},
	// No children, no flags, no end of the process: that is cmd/pmcd's.
	"daemon":                    {"os/exec", "os/signal", "plugin", "flag", "log"},
	"daemon/internal/agentset":  {"os/exec", "os/signal", "plugin", "flag", "log", "net"},
	"daemon/internal/calls":     {"os", "os/exec", "os/signal", "plugin", "flag", "log", "net"},
	"daemon/internal/clients":   {"os", "os/exec", "os/signal", "plugin", "flag", "log", "net"},
	"daemon/internal/labels":    {"os", "os/exec", "os/signal", "plugin", "flag", "log", "net"},
	"daemon/internal/names":     {"os", "os/exec", "os/signal", "plugin", "flag", "log", "net"},
	"daemon/internal/reload":    {"os/exec", "os/signal", "plugin", "flag", "log", "net"},
	"daemon/internal/tlspolicy": {"os/exec", "os/signal", "plugin", "flag", "log", "net"},
	"daemon/internal/session":   {"os/exec", "os/signal", "plugin", "flag", "log"},
	"daemon/internal/sasl":      {"os/exec", "os/signal", "plugin", "flag", "log"},
	// Programs have one form of log lines, that of internal/logtext.
	"cmd/pmcd/pmcdctl":                      {"log"},
	"cmd/pmcd/pmcd-prometheus":              {"log"},
	"cmd/pmcd/pmcd-prometheus/internal/web": {"log"},

	"daemon/internal/diag": {"os", "os/exec", "os/signal", "plugin", "flag", "log", "net"},
}

// onlyIn are imports that belong to some places.
var onlyIn = map[string][]string{
	"github.com/spf13/cobra":  {"cmd/pmcd/pmcdctl", "cmd/pmcd/pmcd-prometheus"},
	"github.com/spf13/pflag":  {"cmd/pmcd/pmcdctl"},
	"github.com/xdg-go/scram": {"pdu/pmapi"},
	"plugin":                  {"internal/launch/goplugin"},
	module + "/etc":           {"cmd/pmcd/internal/embedded"},
	module + "/pdu/pdutest":   {"bench", "cmd/pmcd/internal/peer", "cmd/pmcd/internal/pmcdtest"}, // for tests
	// Package zap brings net/http along, which is 2 MB of memory.
	"go.uber.org/zap":         nil,
	"go.uber.org/zap/zapcore": {"cmd/pmcd/internal/logging"},
}

// mustNotLink is what a program must not contain. DIRECTORY/... is all packages there.
var mustNotLink = map[string][]string{
	// A client, the exporter and what they need are nothing to a daemon.
	"cmd/pmcd": {
		"pdu/pmapi", "github.com/xdg-go/scram", "github.com/spf13/cobra", "github.com/spf13/pflag",
		"github.com/prometheus/client_golang", "github.com/prometheus/client_model",
		"github.com/prometheus/common", "google.golang.org/protobuf",
	},
	"cmd/pmcd/pmcdctl": append([]string{
		"net/http", "github.com/prometheus/client_model", "github.com/prometheus/common", "google.golang.org/protobuf",
	}, notForClients...),
	"cmd/pmcd/pmcd-prometheus": notForClients,
	// Some of its agents run as root. openmetrics is a program of its own for this reason.
	"agents/builtin/pmdas": {"agents/builtin/openmetrics", "pdu/pmapi", "net/http", "crypto/tls"},
}

// notForClients is what clients of pmcd must not contain: the daemon and its agents, and what
// only these need.
var notForClients = []string{
	"agents", "agents/builtin/...", "internal/launch/...", "agents/pmda/...", "agents/serve/...", "internal/transport/...", "internal/wire",
	"cmd/pmcd/internal/cli", "cmd/pmcd/internal/logging", "daemon/...", "etc", "plugin", "pmnsload",
	"github.com/fsnotify/fsnotify", "github.com/prometheus/procfs", "go.uber.org/zap",
}

func TestImports(t *testing.T) {
	rows := importRows(t, mayImport)
	ours, standard := listPackages(t)
	for name, p := range ours {
		for _, i := range p.Imports {
			if where, ok := onlyIn[i]; ok && !slices.Contains(where, name) {
				t.Errorf("%s imports %s: only %q may", name, i, where)
			}
			if slices.Contains(mustNotImport[name], i) {
				t.Errorf("%s imports %s", name, i)
			}
		}
		for _, d := range p.Deps {
			if slices.ContainsFunc(mustNotLink[name], within(d)) {
				t.Errorf("%s depends on %s", name, d)
			}
		}
		if p.Name == "main" && slices.Contains(p.Deps, "testing") {
			t.Errorf("%s depends on a package for tests", name)
		}
		if p.Name == "main" && strings.HasPrefix(name, "cmd/") && slices.Contains(p.Deps, "crypto/tls") {
			for _, setting := range []string{"x509negativeserial=1", "x509rsacrt=0"} {
				if !slices.Contains(strings.Split(p.DefaultGODEBUG, ","), setting) {
					t.Errorf("%s uses TLS and has no line //go:debug %s", name, setting)
				}
			}
		}
		if closure, ok := mayDependOn[name]; ok {
			for _, d := range p.Deps {
				if !standard[d] && !slices.ContainsFunc(closure, within(d)) {
					t.Errorf("%s depends on %s, which is not in mayDependOn", name, d)
				}
			}
		}
		row, ok := rows[name]
		if !ok {
			if p.Name != "main" && (!strings.HasPrefix(name, "cmd/pmcd/") || strings.Contains(name, "/internal/")) {
				t.Errorf("%s has no row in mayImport", name)
			}
			continue
		}
		for _, i := range p.Imports {
			if !standard[i] && !slices.ContainsFunc(row, within(i)) {
				t.Errorf("%s imports %s, which is not in its row of mayImport", name, i)
			}
		}
		for _, allowed := range row {
			if !slices.ContainsFunc(p.Imports, func(i string) bool { return within(i)(allowed) }) {
				t.Errorf("%s does not import %s, which is in its row of mayImport", name, allowed)
			}
		}
	}
	for program, list := range mustNotLink {
		for _, name := range list {
			exists := standard[name] || strings.Contains(strings.TrimSuffix(name, "/..."), ".") // or a module of others
			for pkg := range ours {
				exists = exists || within(module+"/"+pkg)(name)
			}
			if !exists {
				t.Errorf("%s must not link %s, which does not exist", program, name)
			}
		}
	}
	for table, names := range map[string]iter.Seq[string]{
		"mayImport": maps.Keys(rows), "mayDependOn": maps.Keys(mayDependOn), "mustNotImport": maps.Keys(mustNotImport),
		"mustNotLink": maps.Keys(mustNotLink),
	} {
		for name := range names {
			if _, ok := ours[name]; !ok {
				t.Errorf("%s has a row in %s and does not exist", name, table)
			}
		}
	}
}

// importRows parses mayImport. Its result has the full name of each package below the
// module.
func importRows(t *testing.T, table string) map[string][]string {
	rows := make(map[string][]string)
	dir, name := "", ""
	for n, line := range strings.Split(table, "\n") {
		at, imports, isRow := strings.Cut(line, ":")
		switch {
		case line == "" || line[0] == '#':
			continue
		case line[0] == ' ' && name != "":
			imports = line
		case strings.HasPrefix(line, "in "):
			dir, name = strings.TrimPrefix(line, "in ")+"/", ""
			continue
		case isRow:
			name = dir + at
			if _, ok := rows[name]; ok {
				t.Errorf("%s has two rows in mayImport", name)
			}
			rows[name] = nil
		default:
			t.Fatalf("mayImport, line %d: %q is no row", n+1, line)
		}
		for _, i := range strings.Fields(imports) {
			if below, ok := strings.CutPrefix(i, "./"); ok {
				i = dir + below
			}
			rows[name] = append(rows[name], i)
		}
	}
	return rows
}

// listedPackage is what the go command says about a package.
type listedPackage struct {
	ImportPath, Name string
	Standard         bool
	Imports, Deps    []string
	DefaultGODEBUG   string
}

// listPackages returns the packages of the module by their names below it, and the import
// paths of the standard library.
func listPackages(t *testing.T) (ours map[string]listedPackage, standard map[string]bool) {
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Name,Standard,Imports,Deps,DefaultGODEBUG", module+"/...")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	ours = make(map[string]listedPackage)
	standard = map[string]bool{"C": true, "unsafe": true}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listedPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Standard {
			standard[p.ImportPath] = true
		}
		if name, ok := strings.CutPrefix(p.ImportPath, module+"/"); ok {
			ours[name] = p
		}
	}
	if len(ours) < 5 {
		t.Fatalf("go list knows only %d packages of %s", len(ours), module)
	}
	return ours, standard
}

// within returns a function that reports whether the tables mean the import path by the
// name: of a package of our module or of the standard library exactly this one, of a module of
// others any package, and of DIRECTORY/... any package of our module there.
func within(path string) func(name string) bool {
	return func(name string) bool {
		if dir, ok := strings.CutSuffix(name, "/..."); ok {
			return strings.HasPrefix(path+"/", module+"/"+dir+"/")
		}
		if strings.Contains(name, ".") {
			return path == name || strings.HasPrefix(path, name+"/")
		}
		return path == module+"/"+name || path == name
	}
}
