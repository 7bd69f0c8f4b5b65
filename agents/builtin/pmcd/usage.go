package pmcd

import (
	"context"
	"runtime/metrics"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// cpuMetrics is cluster 7.
var cpuMetrics = []metric{
	{0, "pmcd.cputime.total", u64, 0, counter, msec, func(f *fetch) {
		f.w.Uint64(pdu.NoInst, u64, uint64(f.cpu().used.Milliseconds()))
	}, nil},
	{1, "pmcd.cputime.per_pdu_in", doubl, 0, instant, perPDU, func(f *fetch) {
		f.w.Float64(pdu.NoInst, f.perPDU())
	}, nil},
}

// cpuTime is the CPU time of the process and the number of PDUs that it has received.
type cpuTime struct {
	used time.Duration // user and system
	pdus uint32        // PDUs received; wraps
}

// A usage has the state of the metrics about resources that the process uses.
type usage struct {
	live *liveObjects

	mu        sync.Mutex // guards the following
	memory    [len(inUseMetrics)]metrics.Sample
	highFD    int               // highest file descriptor seen
	lastFetch map[int32]cpuTime // at the last fetch, by client
}

func newUsage() *usage {
	u := &usage{live: newLiveObjects(), lastFetch: make(map[int32]cpuTime)}
	for i, name := range inUseMetrics {
		u.memory[i].Name = name
	}
	return u
}

// replaceLast replaces the last fetch of a client. It does not if ctx has ended:
// then the client may have ended, too, and forget was called.
func (u *usage) replaceLast(ctx context.Context, client int32, now cpuTime) (last cpuTime) {
	u.mu.Lock()
	defer u.mu.Unlock()
	last = u.lastFetch[client]
	if ctx.Err() == nil {
		u.lastFetch[client] = now
	}
	return last
}

// forget forgets the last fetch of a client.
func (u *usage) forget(client int32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.lastFetch, client)
}

func (f *fetch) cpu() cpuTime {
	if markFetched(&f.fetched.cpu) {
		ru := &f.rusage
		f.cpuNow = cpuTime{pdus: received(f.status().PDUs, 0)}
		if syscall.Getrusage(syscall.RUSAGE_SELF, ru) == nil {
			f.cpuNow.used = time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
		}
	}
	return f.cpuNow
}

// perPDU returns the CPU time for each PDU received, in microseconds, since the last
// fetch of the same client. In the first fetch of a client it is since the start of
// pmcd.
func (f *fetch) perPDU() float64 {
	if markFetched(&f.fetched.perPDU) {
		now := f.cpu()
		last := f.a.usage.replaceLast(f.ctx, f.client, now)
		f.perPDUNow = 0
		if n := now.pdus - last.pdus; n != 0 {
			f.perPDUNow = float64((now.used - last.used).Nanoseconds()) / 1e3 / float64(n)
		}
	}
	return f.perPDUNow
}

// openFDs returns the highest file descriptor that fetches of this metric have seen in
// use. It is estimated from the number of descriptors: the kernel assigns the lowest
// free number, so with n of them the highest is at least n-1.
func openFDs(f *fetch) uint32 {
	n := 0
	if err := syscall.Stat("/proc/self/fd", &f.fdDir); err == nil {
		n = int(f.fdDir.Size)
	}
	if n == 0 { // before Linux 6.2 this directory has no size
		n = f.countFiles("/proc/self/fd")
	}
	u := f.a.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	u.highFD = max(u.highFD, n-1)
	return uint32(u.highFD)
}

func (f *fetch) countFiles(dir string) (n int) {
	d, err := regular.OpenDir(dir)
	if err != nil {
		return 0
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(64)
		n += len(names)
		if f.err = f.ctx.Err(); err != nil || f.err != nil {
			return n
		}
	}
}

// bufferSizes are the instances of pmcd.buf: the largest size of each class, in bytes.
// The last class has no largest size.
var bufferSizes = [numBuffers]int32{12, 20, 1024, 2048, 4196, 8192, 8193}

const numBuffers = 7

func bufferInstances() []pdu.Inst {
	var list []pdu.Inst
	for _, n := range bufferSizes {
		name := strconv.Itoa(int(n))
		switch {
		case n < 1000:
			name = "00" + name
		case n > 8192:
			name = "8192+"
		}
		list = append(list, pdu.Inst{ID: n, Name: name})
	}
	return list
}

func buffers(get func(*fetch) [numBuffers]int32) fetchFunc {
	return func(f *fetch) {
		p := f.profile.For(pdu.NewInDom(f.a.domain, indomBuffers))
		n := get(f)
		for i, size := range bufferSizes {
			if p.Includes(size) {
				f.w.Word(size, uint32(n[i]))
			}
		}
	}
}

// buffers returns the number of objects on the heap by size. PDU buffers are among
// them.
func (f *fetch) buffers() [numBuffers]int32 {
	if markFetched(&f.fetched.buffers) {
		f.buffersNow = f.a.usage.live.bySize()
	}
	return f.buffersNow
}

// noBuffers returns the number of buffers kept for later use: none, because the
// garbage collector manages memory.
func noBuffers(*fetch) [numBuffers]int32 { return [numBuffers]int32{} }
