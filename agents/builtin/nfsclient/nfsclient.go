// Package nfsclient is the agent for mounts of NFS (domain 62). It serves the metrics of
// PCP's pmdanfsclient, nfsclient, with the same PMIDs, instances and values. An instance is
// a mount point.
//
// The agent must run as root if pmcd has changed its user: the kernel lets only root read
// /proc/self/mountstats of such a process.
//
// Comments that start with "C differs" say what pmdanfsclient, which is in Python, does
// otherwise.
package nfsclient

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/ids"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Options configure an agent. The zero value is for this host.
type Options struct {
	// File is what the agent reads; "" is, as with pmdanfsclient, the file that the environment
	// variable NFSCLIENT_MOUNTSTATS_PATH names, or /proc/self/mountstats.
	File string

	// CacheDir is the directory of the file with the ids of instances, see
	// [cache.Options].
	CacheDir string

	// Log gets warnings about that file; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host.
func New(domain int) (agents.Agent, error) { return Open(domain, Options{}) }

// Open returns an agent with these options.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent() }

//go:embed help.txt
var help string

// A host reads the mounts.
type host struct {
	sysfile.Reader
	Options
	domain    int
	parser    *parser
	instances *ids.Saved // with a *mount each
}

func newHost(domain int, o Options) *host {
	o.File = cmp.Or(o.File, os.Getenv("NFSCLIENT_MOUNTSTATS_PATH"), "/proc/self/mountstats")
	o.Log = cmp.Or(o.Log, slog.Default()).With("agent", "nfsclient", "domain", domain)
	return &host{Options: o, domain: domain, parser: newParser(), instances: ids.New(pdu.NewInDom(domain, 0), o.CacheDir, o.Log)}
}

func (h *host) agent() (agents.Agent, error) {
	names := &pmda.Subtree{Prefix: "nfsclient"}
	if err := names.Set(h.metrics()); err != nil {
		return nil, err
	}
	return pmda.New(pmda.Config{Name: "nfsclient", Domain: h.domain, Subtrees: []*pmda.Subtree{names}, Help: help, Log: h.Log})
}

// maxFile is the size of the largest file that is read, in bytes. A mount of NFS has some
// five kilobytes.
const maxFile = 64 << 20

// read reads the mounts.
//
// C differs: the instances of a request for instances are those of the last fetch.
func (h *host) read(_ context.Context, r *pmda.Request) error {
	h.parser.begin(r.Err)
	err := h.Path(h.File).Lines(maxFile, h.parser.line)
	if errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("%s has more than %d bytes", h.File, maxFile)
	}
	if err != nil {
		return err
	}
	h.instances.Begin()
	for _, m := range h.parser.found() {
		_, _ = h.instances.Add(m.point, m) // fails only if all ids are used
	}
	h.instances.End()
	return nil
}
