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
	"github.com/gopcp/pmcd/agents/transport"
	"github.com/gopcp/pmcd/agents/wire"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/logging"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

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
		{"by its words, and it is not", "other_init", "", "no agent that is built in has the entry point other_init"},
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
			o := New(Config{Stderr: os.Stderr, Builtin: table, Log: slog.New(logging.NewHandler(logging.NewCore(&log, "text")))})
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
