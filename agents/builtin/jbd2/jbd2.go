// Package jbd2 is the agent for the journals of ext3 and ext4 (domain 122). It
// serves the metrics of PCP's pmdajbd2, jbd2, with the same PMIDs, instances and
// values. The kernel reports averages; totals are averages times the number of
// transactions.
package jbd2

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/internal/ids"
	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Options configure an agent. The zero value is for this host.
type Options struct {
	// Dir has a directory for each journal; "" is /proc/fs/jbd2 (pmdajbd2 -j).
	Dir string

	// CacheDir is the directory of the file with the ids of instances, see
	// [cache.Options].
	CacheDir string

	// Log gets warnings about that file; nil is slog.Default.
	Log *slog.Logger
}

// New returns the agent for this host. The environment variable JBD2_STATSPATH names the
// directory that has the proc to read.
func New(domain int) (agents.Agent, error) {
	return Open(domain, Options{Dir: filepath.Join("/", os.Getenv("JBD2_STATSPATH"), "proc/fs/jbd2")})
}

// Open returns an agent with these options.
func Open(domain int, o Options) (agents.Agent, error) { return newHost(domain, o).agent() }

//go:embed help.txt
var help string

// A host reads the journals.
type host struct {
	sysfile.Reader
	Options
	domain    int
	instances *ids.Saved // with a *journal each
	active    uint64     // number of journals that exist
}

func newHost(domain int, o Options) *host {
	o.Dir = cmp.Or(o.Dir, "/proc/fs/jbd2")
	o.Log = cmp.Or(o.Log, slog.Default()).With("agent", "jbd2", "domain", domain)
	return &host{
		Options: o, domain: domain, instances: ids.New(pdu.NewInDom(domain, 0), o.CacheDir, o.Log),
	}
}

func (h *host) agent() (agents.Agent, error) {
	return pmda.New(pmda.Config{Name: "jbd2", Domain: h.domain, Metrics: h.metrics(), Help: help, Log: h.Log})
}

// findJournals lists and reads the journals.
func (h *host) findJournals(context.Context, *pmda.Request) error {
	var names []string
	_ = h.Path(h.Dir).List(func(name []byte, _ byte) {
		if name[0] != '.' {
			names = append(names, string(name))
		}
	})
	h.instances.Begin()
	h.active = 0
	for _, name := range names {
		j := new(journal)
		b, err := h.Path(h.Dir).Str("/").Name(name).Str("/info").Text(4096)
		if err != nil || !j.parse(b) {
			continue
		}
		if _, err := h.instances.Add(name, j); err == nil {
			h.active++
		}
	}
	h.instances.End()
	return nil
}

// Indexes into journal.averages.
const (
	avgWaiting = iota // in ms, as are those up to logging
	avgRequestDelay
	avgRunning
	avgLocked
	avgFlushing
	avgLogging
	avgCommitting // in us
	avgHandles
	avgBlocks
	avgBlocksLogged
	numAverages
)

// averageTexts are the texts after the number in the lines of a journal.
var averageTexts = [numAverages]string{
	"ms waiting for transaction", "ms request delay", "ms running transaction", "ms transaction was being locked",
	"ms flushing data (in ordered mode)", "ms logging transaction", "us average transaction commit time",
	" handles per transaction", " blocks per transaction", " logged blocks per transaction",
}

// A journal has the statistics of one (jbd2_seq_info_show in the kernel):
//
//	12 transactions (3 requested), each up to 8192 blocks
//	average:
//	  0ms waiting for transaction
type journal struct {
	count, requested, maxBlocks uint64
	hasRequested                bool // the kernel counts requested transactions: since Linux 3
	averages                    [numAverages]uint64
}

// parse sets j to the contents of a file. It returns false unless the file has a
// head and the line "average:".
func (j *journal) parse(b []byte) bool {
	head, averaged := false, false
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		switch {
		case !head:
			head = j.parseHead(line)
		case !averaged:
			averaged = bytes.HasPrefix(line, []byte("average:"))
		default:
			line = bytes.TrimLeft(line, " \t")
			digits := 0
			for digits < len(line) && line[digits] >= '0' && line[digits] <= '9' {
				digits++
			}
			n, ok := sysfile.Uint(line[:digits])
			for i, what := range averageTexts {
				if ok && string(line[digits:]) == what {
					j.averages[i] = n
				}
			}
		}
	}
	return averaged
}

// parseHead parses the first line, of which Linux 2.6 has another form.
func (j *journal) parseHead(line []byte) (ok bool) {
	word := func(want string) {
		var w []byte
		w, line = sysfile.Field(line)
		ok = ok && string(w) == want
	}
	number := func(trim string) (n uint64) {
		var w []byte
		w, line = sysfile.Field(line)
		n, isNumber := sysfile.Uint(bytes.TrimPrefix(w, []byte(trim)))
		ok = ok && isNumber
		return n
	}
	ok = true
	j.count = number("")
	if j.hasRequested = bytes.HasPrefix(line, []byte(" transactions ")); j.hasRequested {
		word("transactions")
		j.requested = number("(")
		word("requested),")
	} else {
		word("transaction,")
	}
	word("each")
	word("up")
	word("to")
	j.maxBlocks = number("")
	word("blocks")
	return ok
}

func (h *host) metrics() []pmda.Metric {
	source := &pmda.Source{Read: h.findJournals}
	indom := &pmda.InDom{Insts: h.instances, Source: source}
	number := func(f func(j *journal) uint64) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, j *journal) { v.SetUint(f(j)) })
	}
	requested := func(f func(j *journal) uint64) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, j *journal) {
			if j.hasRequested {
				v.SetUint(f(j))
			}
		})
	}
	average := func(i int) pmda.FetchFunc { return number(func(j *journal) uint64 { return j.averages[i] }) }
	total := func(i int) pmda.FetchFunc { return number(func(j *journal) uint64 { return j.averages[i] * j.count }) }
	const u32, u64, counter, instant = pdu.MetricU32, pdu.MetricU64, pdu.SemCounter, pdu.SemInstant
	long := u64 // unsigned long in the kernel
	if strconv.IntSize == 32 {
		long = u32
	}
	return append(
		metrics.Table(pmda.Metric{InDom: indom}, []row{
			{0, 1, "jbd2.transaction.count", long, counter, pdu.Count, number(func(j *journal) uint64 { return j.count })},
			{0, 2, "jbd2.transaction.requested", long, counter, pdu.Count, requested(func(j *journal) uint64 { return j.requested })},
			{0, 3, "jbd2.transaction.max_blocks", u32, instant, 0, number(func(j *journal) uint64 { return j.maxBlocks })},
			{0, 4, "jbd2.transaction.total.time.waiting", u64, counter, pdu.Msec, total(avgWaiting)},
			{0, 5, "jbd2.transaction.total.time.request_delay", u64, counter, pdu.Msec, requested(func(j *journal) uint64 { return j.averages[avgRequestDelay] * j.requested })},
			{0, 6, "jbd2.transaction.total.time.running", u64, counter, pdu.Msec, total(avgRunning)},
			{0, 7, "jbd2.transaction.total.time.being_locked", u64, counter, pdu.Msec, total(avgLocked)},
			{0, 8, "jbd2.transaction.total.time.flushing_ordered_mode_data", u64, counter, pdu.Msec, total(avgFlushing)},
			{0, 9, "jbd2.transaction.total.time.logging", u64, counter, pdu.Msec, total(avgLogging)},
			{0, 10, "jbd2.transaction.total.blocks", u64, counter, pdu.Count, total(avgBlocks)},
			{0, 11, "jbd2.transaction.total.blocks_logged", u64, counter, pdu.Count, total(avgBlocksLogged)},
			{0, 12, "jbd2.transaction.total.handles", u64, counter, pdu.Count, total(avgHandles)},
			{0, 13, "jbd2.transaction.average.time.waiting", u32, instant, pdu.Msec, average(avgWaiting)},
			{0, 14, "jbd2.transaction.average.time.request_delay", u32, instant, pdu.Msec, requested(func(j *journal) uint64 { return j.averages[avgRequestDelay] })},
			{0, 15, "jbd2.transaction.average.time.running", u32, instant, pdu.Msec, average(avgRunning)},
			{0, 16, "jbd2.transaction.average.time.being_locked", u32, instant, pdu.Msec, average(avgLocked)},
			{0, 17, "jbd2.transaction.average.time.flushing_ordered_mode_data", u32, instant, pdu.Msec, average(avgFlushing)},
			{0, 18, "jbd2.transaction.average.time.logging", u32, instant, pdu.Msec, average(avgLogging)},
			{0, 19, "jbd2.transaction.average.time.committing", u64, instant, pdu.Usec, average(avgCommitting)},
			{0, 20, "jbd2.transaction.average.blocks", long, instant, pdu.Count, average(avgBlocks)},
			{0, 21, "jbd2.transaction.average.blocks_logged", long, instant, pdu.Count, average(avgBlocksLogged)},
			{0, 22, "jbd2.transaction.average.handles", long, instant, pdu.Count, average(avgHandles)},
		}),
		pmda.Metric{
			Name: "jbd2.njournals", Type: u32, Sem: instant, Units: pdu.Count, Source: source,
			Fetch: pmda.FromUint(func() (uint64, bool) { return h.active, true }),
		},
	)
}

// A row is a metric of a table.
type row metrics.Row
