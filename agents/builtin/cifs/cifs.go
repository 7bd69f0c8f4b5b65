// Package cifs is the agent for mounts of CIFS (SMB 1, 2 and 3) (domain 121). It serves the
// metrics of PCP's pmdacifs, including those that are new in PCP 7, with the same PMIDs,
// instances and values:
//
//	cifs         totals
//	cifs.fs      counters of each share, also in cifs.ops
//	cifs.debug   servers, sessions and shares
//
// As with pmdacifs, ids of instances last as long as the agent.
//
// Comments that start with "C differs" say what pmdacifs does otherwise.
package cifs

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// Options configure an agent. The zero value is for this host.
type Options struct {
	// Dir has the files Stats and DebugData; "" is /proc/fs/cifs or, as with pmdacifs, in
	// the directory that the environment variable CIFS_STATSPATH names.
	Dir string

	// Log gets messages of package pmda; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host.
func New(domain int) (agents.Agent, error) { return Open(domain, Options{}) }

// Open returns an agent with these options.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent() }

//go:embed help.txt
var help string

// A host reads the files.
type host struct {
	sysfile.Reader
	Options
	domain   int
	parser   parser
	debugErr error // of DebugData
}

func newHost(domain int, o Options) *host {
	o.Dir = cmp.Or(o.Dir, filepath.Join("/", os.Getenv("CIFS_STATSPATH"), "proc/fs/cifs"))
	o.Log = cmp.Or(o.Log, slog.Default()).With("agent", "cifs", "domain", domain)
	h := &host{Options: o, domain: domain}
	for k := range kinds {
		if kinds[k].instances {
			// The file is not used: pmdacifs has none.
			h.parser.instances[k] = cache.New(pdu.NewInDom(domain, kinds[k].serial), cache.Options{})
		}
	}
	return h
}

func (h *host) agent() (agents.Agent, error) {
	names := &pmda.Subtree{Prefix: "cifs"}
	if err := names.Set(h.metrics()); err != nil {
		return nil, err
	}
	return pmda.New(pmda.Config{Name: "cifs", Domain: h.domain, Subtrees: []*pmda.Subtree{names}, Help: help, Log: h.Log})
}

// maxFile is the size of the largest file that is read, in bytes. A share has some 700 bytes
// in each of them.
const maxFile = 64 << 20

// read reads both files. On a host without CIFS they do not exist, and that is the error of
// all metrics. Another error of DebugData is that of cifs.debug only.
//
// C differs: pmdacifs of 7.2 has the error for all metrics if only DebugData cannot be read.
func (h *host) read(_ context.Context, r *pmda.Request) error {
	h.parser.begin(r.Err)
	if err := h.lines("/Stats"); err != nil {
		return err
	}
	h.parser.debug = true
	if h.debugErr = h.lines("/DebugData"); errors.Is(h.debugErr, fs.ErrNotExist) || errors.Is(h.debugErr, fs.ErrPermission) {
		h.debugErr = nil
	}
	return nil
}

func (h *host) lines(file string) error {
	err := h.Path(h.Dir).Str(file).Lines(maxFile, h.parser.line)
	switch {
	case errors.Is(err, syscall.EFBIG):
		return fmt.Errorf("%s%s has more than %d bytes", h.Dir, file, maxFile)
	case errors.Is(err, errTooMany):
		return fmt.Errorf("%s%s: %w", h.Dir, file, err)
	}
	return err
}

// fetch returns the function of the metrics of a kind. There is no value if the kernel does not
// write it.
//
// C differs: the value is 0 or "".
func (h *host) fetch(k int) pmda.FetchFunc {
	return func(_ context.Context, v *pmda.Value) error {
		r := h.parser.current[k]
		if kinds[k].instances {
			r = v.Data().(record)
		}
		word := r[v.Metric().Item]
		n, isNumber := number(word)
		switch {
		case word != "" && v.Metric().Type == pdu.MetricString:
			v.SetString(word)
		case isNumber && word[0] == '-':
			v.SetInt(int64(n))
		case isNumber:
			v.SetUint(n)
		case kinds[k].instances:
			return pdu.ErrnoAppVersion
		}
		return nil
	}
}

func (h *host) metrics() (ms []pmda.Metric) {
	files := &pmda.Source{Read: h.read}
	debugData := &pmda.Source{Read: func(ctx context.Context, r *pmda.Request) error {
		if err := r.ReadSource(ctx, files); err != nil {
			return err
		}
		return h.debugErr
	}}
	for k, kind := range kinds {
		source := files
		if k >= debug {
			source = debugData
		}
		common := pmda.Metric{Cluster: k, Sem: pdu.SemInstant, Units: kind.units, Fetch: h.fetch(k)}
		if kind.instances {
			common.InDom = &pmda.InDom{Serial: kind.serial, Insts: h.parser.instances[k], Source: source}
		} else {
			common.Source = source
		}
		for i, f := range kind.fields {
			m := common
			m.Item, m.Name, m.Type = i, "cifs."+kind.prefix+f.name, f.typ
			if m.Name == "cifs.version" {
				m.Sem, m.Units = pdu.SemDiscrete, 0
			}
			ms = append(ms, m)
		}
	}
	return ms
}
