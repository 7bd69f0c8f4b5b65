package pmcd

import (
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/internal/zone"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// controlMetrics is cluster 0: settings and properties of pmcd.
var controlMetrics = []metric{
	{0, "pmcd.control.debug", str, 0, discrete, none, text(func(f *fetch) string { return f.status().Debug }), storeText(setDebug)},
	{1, "pmcd.datasize", u32, 0, instant, kbyte, word(dataSize), nil},
	{2, "pmcd.numagents", u32, 0, instant, none, word(func(f *fetch) uint32 { return uint32(f.status().Agents) }), nil},
	{3, "pmcd.numclients", u32, 0, instant, none, word(func(f *fetch) uint32 { return uint32(f.status().Clients) }), nil},
	{4, "pmcd.control.timeout", u32, 0, discrete, sec, word(func(f *fetch) uint32 { return seconds(f.status().Timeout) }), storeInt(setTimeout)},
	{5, "pmcd.timezone", str, 0, discrete, none, text(func(f *fetch) string { return zone.Text(time.Now(), f.location()) }), nil},
	{6, "pmcd.simabi", str, 0, discrete, none, text(func(*fetch) string { return simABI }), nil},
	{7, "pmcd.version", str, 0, discrete, none, text(func(*fetch) string { return pcpconf.Version }), nil},
	{8, "pmcd.control.register", i32, indomRegisters, discrete, none, registers, storeRegisters},
	{9, "pmcd.control.traceconn", i32, 0, discrete, none, traceBit(TraceConn), storeTraceBit(TraceConn)},
	{10, "pmcd.control.tracepdu", i32, 0, discrete, none, traceBit(TracePDU), storeTraceBit(TracePDU)},
	{11, "pmcd.control.tracebufs", i32, 0, discrete, none, word(func(f *fetch) uint32 { return uint32(f.status().TraceBufs) }), storeInt(setTraceBufs)},
	{12, "pmcd.control.dumptrace", i32, 0, discrete, none, word(zero), storeInt(dumpTrace)},
	{13, "pmcd.control.dumpconn", i32, 0, discrete, none, word(zero), storeInt(dumpClients)},
	{14, "pmcd.control.tracenobuf", i32, 0, discrete, none, traceBit(TraceNoBuf), storeTraceBit(TraceNoBuf)},
	{15, "pmcd.control.sighup", i32, 0, discrete, none, word(zero), storeInt(sighup)},
	{16, "pmcd.services", str, 0, instant, none, text(services), nil},
	{17, "pmcd.openfds", u32, 0, instant, none, word(openFDs), nil},
	{18, "pmcd.buf.alloc", i32, indomBuffers, instant, count, buffers((*fetch).buffers), nil},
	{19, "pmcd.buf.free", i32, indomBuffers, instant, count, buffers(noBuffers), nil},
	{20, "pmcd.build", str, 0, discrete, none, text(func(f *fetch) string { return f.a.config.Build }), nil},
	{21, "pmcd.hostname", str, 0, discrete, none, text(func(f *fetch) string { return f.a.host.Hostname(f.client) }), nil},
	{22, "pmcd.sighups", u32, 0, counter, count, word(func(f *fetch) uint32 { return f.status().Sighups }), nil},
	{23, "pmcd.pid", u64, 0, discrete, none, func(f *fetch) { f.w.Uint64(pdu.NoInst, u64, uint64(f.status().PID)) }, nil},
	{itemSeqnum, "pmcd.seqnum", u32, 0, discrete, none, word(func(f *fetch) uint32 { return f.status().Seqnum }), storeInt(bumpSeqnum)},
	{25, "pmcd.labels", str, 0, instant, none, text(func(f *fetch) string { return f.a.host.Labels() }), nil},
	{26, "pmcd.zoneinfo", str, 0, discrete, none, text(func(f *fetch) string { return f.a.zone.Name }), nil},
	{27, "pmcd.limits.inpdusize", u32, 0, discrete, pduSize, word(func(f *fetch) uint32 { return f.status().Limits.InPDUSize }), nil},
	{28, "pmcd.limits.contexts", u32, 0, discrete, none, word(func(f *fetch) uint32 { return f.status().Limits.Contexts }), nil},
	{29, "pmcd.limits.metrics", u32, 0, discrete, none, word(func(f *fetch) uint32 { return f.status().Limits.Metrics }), nil},
	{30, "pmcd.control.creds_timeout", u32, 0, discrete, sec, word(func(f *fetch) uint32 { return seconds(f.status().CredsTimeout) }), storeInt(setCredsTimeout)},
}

const itemSeqnum = 24

// numRegisters is the number of instances of pmcd.control.register.
const numRegisters = 16

func zero(*fetch) uint32 { return 0 }

// seconds returns d in seconds, rounded up, so that only 0 is shown as 0.
func seconds(d time.Duration) uint32 { return uint32((d + time.Second - 1) / time.Second) }

func traceBit(t Trace) fetchFunc {
	return word(func(f *fetch) uint32 { return boolWord(f.status().Trace&t != 0) })
}

func registers(f *fetch) {
	p := f.profile.For(pdu.NewInDom(f.a.domain, indomRegisters))
	for i := range f.a.registers {
		if p.Includes(int32(i)) {
			f.w.Word(int32(i), uint32(f.a.registers[i].Load()))
		}
	}
}

// services returns the names of the PCP services that run on this host: pmcd, and
// pmproxy if its pid file names a live process.
func services(f *fetch) string {
	dir := f.a.config.RunDir
	if dir == "" || f.a.files.acquire(f.ctx) != nil {
		return "pmcd"
	}
	defer f.a.files.release()
	if readPID(filepath.Join(dir, "pmproxy.pid")) != 0 {
		return "pmcd pmproxy"
	}
	return "pmcd"
}

// simABI is the value of pmcd.simabi, which names the platform.
var simABI = func() string {
	switch runtime.GOARCH {
	case "amd64":
		return "x86_64"
	case "386":
		return "ia32"
	case "arm64":
		return "aarch64"
	}
	return runtime.GOARCH
}()

// location returns the present zone of the host; UTC if f has ended.
func (f *fetch) location() *time.Location {
	if f.a.files.acquire(f.ctx) != nil {
		return time.UTC
	}
	defer f.a.files.release()
	return f.a.zone.Location()
}

func hostname() string {
	name, _ := os.Hostname() // on an error the value is ""
	return name
}
