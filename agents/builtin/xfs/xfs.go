// Package xfs is the agent for the XFS file systems of Linux (domain 11). It serves
// the metrics of PCP's pmdaxfs, with the same PMIDs, instances and values, including
// those that are new in PCP 7.2:
//
//	xfs          statistics of all file systems
//	xfs.perdev   the same for each device
//	quota        quotas of projects, quotactl(2)
//
// All clients may see statistics. To read quotas the agent must run as root, and
// only a client that is root may store xfs.control.reset.
//
// Comments that start with "C differs" say what pmdaxfs does otherwise.
//
// The module github.com/prometheus/procfs is not used: it parses fewer lines, and
// cannot read one device without all others.
package xfs

import (
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

// Options configure an agent. The zero value is for this host.
type Options struct {
	// Root is the directory that has proc, sys, dev and etc; "" is /. A pmcd in a
	// container sets it to where the host's directories are mounted, and tests set
	// it to a recorded tree.
	Root string
}

// New returns the agent for this host. As with pmdaxfs, the environment variable
// XFS_STATSPATH sets Root.
func New(domain int) (agents.Agent, error) {
	return Open(domain, Options{Root: os.Getenv("XFS_STATSPATH")})
}

// Open returns the agent for the host that o describes.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent(help) }

//go:embed help.txt
var help string

// Serial numbers of the instance domains.
const (
	indomFilesys = 5
	indomDevice  = 6
	indomProject = 16
)

// A host is the state that all sources share.
type host struct {
	sysfile.Reader
	domain   int
	layout   layout
	total    stats
	devices  *cache.Cache
	quotas   *quotas
	quotactl func(cmd int, device string, id uint32, buf []byte) error
}

func newHost(domain int, o Options) *host {
	h := &host{
		Reader: sysfile.Reader{Root: strings.TrimRight(o.Root, "/")}, domain: domain, layout: newLayout(),
		devices: cache.New(pdu.NewInDom(domain, indomDevice), cache.Options{}),
	}
	h.quotactl = func(cmd int, device string, id uint32, buf []byte) error {
		return quotactl(cmd, h.Root+device, id, buf)
	}
	h.quotas = newQuotas(h)
	return h
}

func (h *host) agent(help string) (agents.Agent, error) {
	return pmda.New(pmda.Config{
		Name:      "xfs",
		Domain:    h.domain,
		Metrics:   h.metrics(),
		Help:      help,
		WantAttrs: true,
	})
}

func (h *host) metrics() []pmda.Metric {
	return slices.Concat(h.statisticsMetrics(), h.quotas.metrics())
}
