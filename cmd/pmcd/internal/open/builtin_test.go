package open

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	agentserve "github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// A pipe line is for a built-in agent if its program does not exist, and has the name and
// the domain of the one that the agent stands for.
func TestStandIn(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"pmdaone", "a/pmdaone"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, "there", name)), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	there := filepath.Join(dir, "there", "pmdaone") // a file that cannot be executed
	if err := os.WriteFile(there, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none", "pmdaone")
	script := there + ".python" // one of PCP's agents
	if err := os.WriteFile(script, []byte("exit 1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	is := func(what string) string { return what + ": " + none + " does not exist\n" }
	builtIn := is(`Info: agent "one" (dom 250) is built in`)
	for _, tt := range []struct {
		name   string
		domain int
		argv   string
		err    string // part of it
		got    string // the option -x that the agent gets
		log    string
	}{
		{"no program", 250, none, "", "", builtIn},
		{"options", 250, none + " -d 250 -p -x two", "", "two", builtIn},
		{"unknown options", 250, none + " -x two -Z -d 249 -i 5 more words", "", "two", builtIn +
			`Warning: agent "one" (dom 250) is built in: unsupported options of ` + none +
			" are ignored: invalid option -- 'Z', -d 249, -i 5, more words\n"},
		{"a wrong option", 250, none + " -x three", "there is no three", "", builtIn},
		{"another domain", 251, none, "no such file", "", ""},
		{"another name", 250, filepath.Join(dir, "pmdatwo"), "no such file", "", ""},
		{"a relative name", 250, "none/pmdaone", "no such file", "", ""},
		{"no directory in PATH", 250, "pmdaone", "executable file not found", "", ""},
		{"it exists", 250, there, "permission denied", "", ""},
		{"below a file", 250, there + "/pmdaone", "not a directory", "", ""},
		{"no script", 250, "/bin/sh " + none + ".python -x two", "", "two", strings.ReplaceAll(builtIn, none, none+".python")},
		{"no interpreter", 250, none + " " + script + " -x two", "", "two", builtIn},
		{"no interpreter in PATH", 250, "no-such-python " + script + " -x two", "", "two", strings.ReplaceAll(builtIn, none, "no-such-python")},
		{"a script for another domain", 251, none + " " + script, "no such file", "", ""},
		{"another script", 250, none + " " + filepath.Join(dir, "pmdatwo.python"), "no such file", "", ""},
		{"the script exists", 250, "/bin/sh " + script, "exited with status 1", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			table := BuiltinAgents{"one_init": {program: func() agentserve.Program {
				x := ""
				return agentserve.Program{Name: "pmdaone", Domain: 250,
					Options: []agentserve.Option{{Short: 'x', Arg: "X", Set: func(arg string) error {
						if x = arg; x == "three" {
							return errors.New("there is no three")
						}
						return nil
					}}},
					New: func(s agentserve.Start) (agents.Agent, error) {
						got = x
						return oneMetric(s.Domain), nil
					},
				}
			}}}
			var log bytes.Buffer
			o := New(Config{Builtin: table, Log: slog.New(logging.NewHandler(logging.NewCore(&log, "text")))})
			spec := &pmcdconf.Agent{Name: "one", Domain: tt.domain, Kind: pmcdconf.Pipe, Argv: strings.Fields(tt.argv), NotReady: true}
			if has := table.Has(spec); has != (tt.log != "") {
				t.Errorf("Has: %v", has)
			}
			l, err := o.Open(t.Context(), spec, wire.Options{NotReady: true})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
			} else {
				if err != nil {
					t.Fatal(err)
				}
				if s := l.State(); s != transport.Ready {
					t.Errorf("state: %v", s)
				}
				l.Close()
			}
			if got != tt.got {
				t.Errorf("-x: got %q, want %q", got, tt.got)
			}
			var text strings.Builder
			for line := range strings.Lines(log.String()) {
				_, after, _ := strings.Cut(line, ") ")
				text.WriteString(after)
			}
			if text.String() != tt.log {
				t.Errorf("log: got %q, want %q", text.String(), tt.log)
			}
		})
	}
}

// Only agents that need the rights of root, or another user, may be started by the root
// helper.
func TestAsRoot(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, tt := range []struct {
		line string
		want bool
	}{
		{"proc 3 pipe binary " + none + "/pmdaproc -d 3", true},
		{"proc 4 pipe binary " + none + "/pmdaproc -d 4", false},
		{"linux 60 pipe binary " + none + "/pmdalinux", true},
		{"jbd2 122 pipe binary " + none + "/pmdajbd2", false},
		{"jbd2 122 pipe binary " + none + "/pmdajbd2 -U root", true},
		{"nfsclient 62 pipe binary /bin/sh " + none + "/pmdanfsclient.python", true},
		{"nfsclient 62 pipe binary " + none + "/python " + none + "/pmdanfsclient.python -d 62", true},
		{"nfsclient 63 pipe binary /bin/sh " + none + "/pmdanfsclient.python", false},
		{"openmetrics 144 pipe binary /bin/sh " + none + "/pmdaopenmetrics.python", false},
		{"proc 4 dso proc_init " + none + ".so", true},
		{"jbd2 122 dso jbd2_init " + none + ".so", false},
		{"other 9 pipe binary " + none + "/pmdaother", false},
	} {
		conf, err := pmcdconf.Parse("pmcd.conf", strings.NewReader(tt.line+"\n"), pmcdconf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := Builtin.AsRoot(&conf.Agents[0]); got != tt.want {
			t.Errorf("%s: got %v", tt.line, got)
		}
	}
}

// oneMetric is an agent with the metric DOMAIN.0.0.
type oneMetric int

func (a oneMetric) Desc(_ context.Context, _ agents.Origin, id pdu.PMID) (pdu.Desc, error) {
	if id != pdu.NewPMID(int(a), 0, 0) {
		return pdu.Desc{}, pdu.ErrnoPMID
	}
	return pdu.Desc{PMID: id, InDom: pdu.NoInDom, Sem: pdu.SemInstant}, nil
}

func (a oneMetric) Fetch(_ context.Context, r *agents.FetchRequest, w *pdu.ResultWriter) error {
	for _, id := range r.PMIDs {
		w.Fail(id, pdu.ErrnoValue)
	}
	return nil
}

// A dso line is for a built-in agent if there is no file and the entry point is
// that of one. A file that is there, whatever it is, has precedence.
func TestBuiltinAgents(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.so")
	if err := os.WriteFile(text, []byte("not a shared object"), 0o666); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none.so")
	tests := []struct {
		name        string
		entry, path string
		err         string // part of it
	}{
		{"no file", "one_init", none, ""},
		{"by its words", "one_init", "", ""},
		{"by its words, and it is not", "other_init", "", "there is no built-in agent with the entry point other_init"},
		{"no directory", "one_init", filepath.Join(dir, "a", "b.so"), ""},
		{"not built in", "other_init", none, "no such file"},
		{"a file", "one_init", text, "not an ELF file"},
		{"a directory", "one_init", dir, "is not a shared object but a directory"},
		{"below a file", "one_init", filepath.Join(text, "b.so"), "not a directory"},
		{"the constructor fails", "bad_init", none, "out of luck"},
		{"the constructor panics", "panic_init", none, "panicked: ouch"},
	}
	table := BuiltinAgents{
		"one_init":   {newAgent: func(domain int) (agents.Agent, error) { return oneMetric(domain), nil }},
		"bad_init":   {newAgent: func(int) (agents.Agent, error) { return nil, errors.New("out of luck") }, root: always},
		"panic_init": {newAgent: func(int) (agents.Agent, error) { panic("ouch") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			o := New(Config{Builtin: table, Log: slog.New(logging.NewHandler(logging.NewCore(&log, "text")))})
			spec := &pmcdconf.Agent{Name: "one", Domain: 250, Kind: pmcdconf.DSO, Entry: tt.entry, Path: tt.path}
			l, err := o.Open(t.Context(), spec, wire.Options{})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			var c transport.Call
			if c.Req, err = pdu.Append(nil, 0, &pdu.DescReq{PMID: pdu.NewPMID(250, 0, 0)}); err != nil {
				t.Fatal(err)
			}
			reply, err := transport.Do(l.Transport, &c, nil)
			if _, typ, _ := pdu.Header(reply); err != nil || typ != pdu.TypeDesc {
				t.Errorf("got %v, %v, want DESC", typ, err)
			}
			// It is started again.
			if l, err = o.Open(t.Context(), spec, wire.Options{}); err != nil {
				t.Fatal(err)
			}
			l.Close()
			want := `Info: agent "one" (dom 250) is built in: ` + tt.path + " does not exist\n"
			if tt.path == "" && log.Len() > 0 || tt.path != "" && (!strings.HasSuffix(log.String(), want) || strings.Count(log.String(), "\n") > 1) {
				t.Errorf("log: got %q, want %q", log.String(), want)
			}
		})
	}
}
