// Package xfs is the agent for the XFS file systems of Linux (domain 11): what
// pmdaxfs of PCP serves, with the same PMIDs, instances and values, those that
// are new in PCP 7.2 included:
//
//	xfs          statistics of all file systems
//	xfs.perdev   the same for each device
//	quota        quotas of projects, quotactl(2)
//
// Statistics are for everybody. The agent has to be root to see quotas, and so
// has a client that stores xfs.control.reset.
//
// What pmdaxfs does otherwise is in comments that start with "C differs".
// Package procfs is not used here: it has fewer of the lines, and reads a device
// only by a look at all of them.
package xfs

import (
	"context"
	_ "embed"
	"os"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

// Options are how an agent differs from the one that New returns.
type Options struct {
	// Root is the directory that has proc, sys, dev and etc; "" is /. It is
	// another one for a pmcd in a container, and for recorded trees.
	Root string
}

// New returns the agent for this host. As with pmdaxfs, XFS_STATSPATH in the
// environment has the Root of another one.
func New(domain int) (agents.Agent, error) {
	return Open(domain, Options{Root: os.Getenv("XFS_STATSPATH")})
}

// Open returns an agent.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent(help) }

//go:embed help.txt
var help string

// Serial numbers of the instance domains.
const (
	indomFilesys = 5
	indomDevice  = 6
	indomProject = 16
)

// A host is what all sources have in common.
type host struct {
	sysfile.Reader
	domain    int
	layout    layout
	total     stats
	devices   *cache.Cache
	perDevice map[string]*device
	request   uint64 // the number of the present request
	quotas    *quotas
	quotactl  func(cmd int, device string, id uint32, buf []byte) error
}

func newHost(domain int, o Options) *host {
	h := &host{
		Reader: sysfile.Reader{Root: strings.TrimRight(o.Root, "/")}, domain: domain, layout: newLayout(),
		devices: cache.New(pdu.NewInDom(domain, indomDevice), cache.Options{}), perDevice: make(map[string]*device),
		quotactl: quotactl,
	}
	h.quotas = newQuotas(h)
	return h
}

func (h *host) agent(help string) (agents.Agent, error) {
	return pmda.New(pmda.Config{
		Name:    "xfs",
		Domain:  h.domain,
		Metrics: h.metrics(),
		Help:    help,
		Attrs:   true,
		Check: func(context.Context, *pmda.Request) error {
			h.request++
			return nil
		},
	})
}

func (h *host) metrics() []pmda.Metric {
	return slices.Concat(h.statisticsMetrics(), h.quotas.metrics())
}
