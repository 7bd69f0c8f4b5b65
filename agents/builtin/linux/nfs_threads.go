package linux

import (
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// nfsd are the threads of the NFS server, in /proc/fs/nfsd: pool_threads has how
// many each pool has, and pool_stats, while there are any, what they have done.
// They are root's: for others there are no values, as in C.
//
//	# pool packets-arrived sockets-enqueued threads-woken threads-timedout
//	0 15240 2 15240 0
type nfsd struct {
	threadsFile, statsFile *sysfile.File
	running                bool // it runs
	threads, pools         uint64
	sums                   [5]uint64 // of the numbers of all pools
}

func newNFSD(h *host) *nfsd {
	return &nfsd{threadsFile: h.file("proc/fs/nfsd/pool_threads"), statsFile: h.file("proc/fs/nfsd/pool_stats")}
}

func (d *nfsd) read(context.Context, *pmda.Request) error {
	threads, _ := d.threadsFile.Read()
	d.parseThreads(threads)
	if d.threads > 0 {
		stats, _ := d.statsFile.Read()
		d.parseStats(stats)
		d.running = d.pools > 0
	}
	return nil
}

// parseThreads adds up the threads of all pools.
//
// C differs: it has those of the first pool.
func (d *nfsd) parseThreads(b []byte) {
	*d = nfsd{threadsFile: d.threadsFile, statsFile: d.statsFile}
	line, _ := sysfile.CutLine(b)
	for {
		var word []byte
		if word, line = sysfile.Field(line); len(word) == 0 {
			return
		}
		var n uint64
		if n, d.running = sysfile.Uint(word); !d.running {
			d.threads = 0
			return
		}
		d.threads += n
	}
}

func (d *nfsd) parseStats(b []byte) {
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		var r sysfile.Record
		if r.Parse(line); r.Words < len(d.sums) || r.Bad != 0 {
			continue // the line that says what there is
		}
		d.pools++
		for i := range d.sums {
			d.sums[i] += r.Nums[i]
		}
	}
}

func (d *nfsd) metrics() []pmda.Metric {
	value := func(n *uint64) pmda.FetchFunc { return pmda.Number(func() (uint64, bool) { return *n, d.running }) }
	return pmda.Table(pmda.Metric{Source: &pmda.Source{Read: d.read}}, []row{
		{7, 71, "nfs.server.threads.total", u32, instant, count, value(&d.threads)},
		{7, 72, "nfs.server.threads.pools", u32, instant, count, value(&d.pools)},
		{7, 73, "nfs.server.threads.requests", u64, counter, count, value(&d.sums[1])},
		{7, 74, "nfs.server.threads.enqueued", u64, counter, count, value(&d.sums[2])},
		{7, 75, "nfs.server.threads.processed", u64, counter, count, value(&d.sums[3])},
		{7, 76, "nfs.server.threads.timedout", u64, counter, count, value(&d.sums[4])},
	})
}
