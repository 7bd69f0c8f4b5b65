package linux

import (
	"context"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// nfsd reads the numbers of threads of the NFS server in /proc/fs/nfsd. pool_threads
// has the number of threads of each pool. pool_stats has counts of their work, and
// is read while there are threads. Only root may read these files. As in C, there
// are no values if the agent does not run as root.
//
//	# pool packets-arrived sockets-enqueued threads-woken threads-timedout
//	0 15240 2 15240 0
type nfsd struct {
	threadsFile, statsFile *sysfile.File
	valid                  bool // the files have valid numbers
	threads, pools         uint64
	sums                   [5]uint64 // of the numbers of pool_stats, over all pools
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
		d.valid = d.pools > 0
	}
	return nil
}

// parseThreads sums the threads of all pools.
//
// C differs: it has the threads of the first pool.
func (d *nfsd) parseThreads(b []byte) {
	*d = nfsd{threadsFile: d.threadsFile, statsFile: d.statsFile}
	line, _ := sysfile.CutLine(b)
	for {
		var word []byte
		if word, line = sysfile.Field(line); len(word) == 0 {
			return
		}
		var n uint64
		if n, d.valid = sysfile.Uint(word); !d.valid {
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
			continue // the header line
		}
		d.pools++
		for i := range d.sums {
			d.sums[i] += r.Nums[i]
		}
	}
}

func (d *nfsd) metrics() []pmda.Metric {
	value := func(n *uint64) pmda.FetchFunc { return pmda.FromUint(func() (uint64, bool) { return *n, d.valid }) }
	return table(pmda.Metric{Source: &pmda.Source{Read: d.read}}, []row{
		{7, 71, "nfs.server.threads.total", u32, instant, count, value(&d.threads)},
		{7, 72, "nfs.server.threads.pools", u32, instant, count, value(&d.pools)},
		{7, 73, "nfs.server.threads.requests", u64, counter, count, value(&d.sums[1])},
		{7, 74, "nfs.server.threads.enqueued", u64, counter, count, value(&d.sums[2])},
		{7, 75, "nfs.server.threads.processed", u64, counter, count, value(&d.sums[3])},
		{7, 76, "nfs.server.threads.timedout", u64, counter, count, value(&d.sums[4])},
	})
}
