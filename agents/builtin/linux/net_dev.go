package linux

import (
	"bytes"
	"context"
	"regexp"
	"time"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Indices of the numbers in a line of /proc/net/dev.
const (
	inBytes = iota
	inPackets
	inErrors
	inDrops
	inFIFO
	inFrame
	inCompressed
	inMulticasts
	outBytes
	outPackets
	outErrors
	outDrops
	outFIFO
	collisions
	outCarrier
	outCompressed
	netFields
)

// interfaces reads /proc/net/dev, proc(5), and files of /sys/class/net.
//
//	Inter-|   Receive                                                |  Transmit
//	 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
//	  eth0: 141239187 4823 0 0 0 0 0 0 493248 3754 0 0 0 0 0 0
type interfaces struct {
	h           *host
	file        *sysfile.File
	instances   *instances[iface]
	source      *pmda.Source
	indom       *pmda.InDom
	addLink     func(link)     // of h.eachLink
	linksRead   uint64         // host.netGeneration of the last eachLink
	linksFailed bool           // it has failed in this fetch
	notPhysical *regexp.Regexp // matches interfaces that are not physical; nil before the first read

	confDone  bool // interfaces.conf was read, or does not exist
	confTried time.Time
	confError string // last error of interfaces.conf
}

type iface struct {
	name     string
	physical bool // network.all counts it
	count    sysfile.Record
	modeRead bool // mode was read in this fetch
	mode     linkMode

	link           link   // without name
	linkGeneration uint64 // host.netGeneration when link was set

	dir           *sysfile.Device
	dirGeneration uint64 // host.netGeneration when dir was set

	// These do not change while the device has the same identity.
	identity          uint64
	wireless, virtual bool
}

// maxInterfacePiece is larger than any line of /proc/net/dev, in bytes.
const maxInterfacePiece = 400

func newInterfaces(h *host) *interfaces {
	n := &interfaces{h: h, file: h.netFile("dev").NeverBlocks(maxInterfacePiece), instances: newInstances[iface](h, indomInterface)}
	n.addLink = func(l link) {
		if i := n.instances.get(string(l.name)); i != nil {
			l.name = nil
			i.link, i.linkGeneration = l, h.netGeneration
		}
	}
	n.source = &pmda.Source{Read: n.read}
	n.indom = &pmda.InDom{
		Serial: indomInterface,
		Insts:  n.instances,
		Source: n.source,
		Labels: interfaceLabels,
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			return pmda.Labels{"interface": i.Name}, nil
		},
	}
	return n
}

var interfaceLabels = pmda.Labels{"device_type": "interface", "indom_name": "per interface"}

func (n *interfaces) read(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, n.h.netChange); err != nil {
		return err
	}
	b, err := n.file.Read()
	n.parse(b)
	return err
}

func (n *interfaces) parse(b []byte) {
	changed, failed := n.readConf(), n.linksFailed
	if failed {
		n.linksRead, n.linksFailed = 0, false
	}
	n.instances.begin()
	defer n.instances.end()
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		i := bytes.LastIndexByte(line, ':') // before Linux 4.16 a name may have colons
		if i < 0 {
			continue // one of the two header lines
		}
		name := bytes.TrimLeft(line[:i], " \t")
		f := n.instances.add(name)
		if f == nil {
			continue
		}
		if f.name == "" || changed {
			f.name = string(name)
			f.physical = !n.notPhysical.Match(name)
		}
		f.count.Parse(line[i+1:])
		f.modeRead = false
		if failed {
			f.linkGeneration = 0
		}
	}
}

// sumCounters returns a FetchFunc for the sum of numbers of an interface.
func sumCounters(indices ...int) pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, f *iface) {
		if n, ok := f.count.Sum(indices, netFields); ok {
			v.SetUint(n)
		}
	})
}

// C differs: it calls ioctl(2) after reading /sys, and the result replaces the
// value of /sys. The type is 1 for every interface that ethtool(8) supports, and
// values depend on the other metrics in the fetch. Only C has the speed of wireless
// interfaces.

// refreshNet starts a new generation of viewReader if files of /sys/class/net may
// have changed. The kernel reports changes in this process's network name space
// only, so that there is a new generation in each fetch for containers and for
// another Options.Root.
func (h *host) refreshNet(context.Context, *pmda.Request) error {
	if h.container != nil || h.Root != "/" || h.links.changed() {
		h.viewReader.Begin()
		h.netGeneration++
	}
	return nil
}

// netDevice returns a directory of /sys/class/net. The kernel reports changes of all
// files that are used here, except speed and duplex.
func (h *host) netDevice(name string) *sysfile.Device {
	return h.viewReader.Device("/sys/class/net/", name)
}

// device returns the directory of an interface.
func (n *interfaces) device(f *iface) *sysfile.Device {
	if f.dir == nil || f.dirGeneration != n.h.netGeneration {
		f.dir, f.dirGeneration = n.h.netDevice(f.name), n.h.netGeneration
	}
	return f.dir
}

// value returns the text of a file of an interface.
func (n *interfaces) value(f *iface, file string) []byte { return n.device(f).Value(file) }

// identify sets the fields that do not change while the device is the same.
func (n *interfaces) identify(f *iface) {
	d := n.device(f)
	if f.identity == d.Identity() {
		return
	}
	f.identity = d.Identity()
	f.wireless = d.Exists("wireless")
	f.virtual = n.h.viewReader.Path("/sys/devices/virtual/net/").Name(f.name).Exists()
}

// link returns what the kernel tells of an interface.
func (n *interfaces) link(f *iface) *link {
	if at := n.h.netGeneration; f.linkGeneration != at {
		if n.linksRead != at && n.h.eachLink != nil {
			n.linksRead = at
			// An interface that it does not have has no values. It fails in a container whose
			// name space may not be entered.
			n.linksFailed = n.h.eachLink(n.addLink) != nil
		}
		if f.linkGeneration != at {
			f.link, f.linkGeneration = link{}, at
			if n.h.eachLink == nil || n.linksFailed {
				f.link = n.linkOfSys(f)
			}
		}
	}
	return &f.link
}

// modeOf returns the mode of an interface, which is read once in a fetch.
//
// C differs: it has the speed 4294967295 for -1, the kernel's value of an unknown speed.
func (n *interfaces) modeOf(f *iface) linkMode {
	if !f.modeRead {
		f.modeRead = true
		if n.h.eachLink != nil && n.h.openIoctlSocket() == nil {
			f.mode = n.h.ethtoolMode(f.name)
		} else {
			f.mode = n.modeOfSys(f)
		}
	}
	return f.mode
}

// IFF_UP and IFF_RUNNING of net/if.h. The latter is that the interface can be used.
const (
	up      = 1
	running = 0x40
)

// flag returns a FetchFunc for 1 or 0.
func flag(f func(i *iface) bool) pmda.FetchFunc {
	return pmda.FromData(func(v *pmda.Value, i *iface) {
		if f(i) {
			v.SetUint(1)
		} else {
			v.SetUint(0)
		}
	})
}

func (n *interfaces) metrics() []pmda.Metric {
	const bits = 1000000 // in a megabit
	speed := pmda.FromData(func(v *pmda.Value, f *iface) {
		if s := n.modeOf(f).speed; s > 0 {
			v.SetFloat(float64(s*bits) / 8 / (1 << 20))
		}
	})
	baudrate := pmda.FromData(func(v *pmda.Value, f *iface) {
		if s := n.modeOf(f).speed; s > 0 {
			v.SetUint(s * bits / 8)
		}
	})
	duplex := pmda.FromData(func(v *pmda.Value, f *iface) {
		if d := n.modeOf(f).duplex; d > 0 {
			v.SetUint(uint64(d))
		}
	})
	mtu := pmda.FromData(func(v *pmda.Value, f *iface) {
		if mtu := n.link(f).mtu; mtu > 0 {
			v.SetUint(mtu)
		}
	})
	ofLink := func(value func(l *link) uint64) pmda.FetchFunc {
		return pmda.FromData(func(v *pmda.Value, f *iface) {
			if l := n.link(f); l.known {
				v.SetUint(value(l))
			}
		})
	}
	typ := ofLink(func(l *link) uint64 { return l.typ })
	isUp := ofLink(func(l *link) uint64 { return min(l.flags&up, 1) })
	isRunning := ofLink(func(l *link) uint64 { return min(l.flags&running, 1) })
	wireless := flag(func(f *iface) bool { n.identify(f); return f.wireless })
	virtual := flag(func(f *iface) bool { n.identify(f); return f.virtual })
	active := pmda.FromUint(func() (uint64, bool) { return uint64(n.instances.present), true })

	return append(table(pmda.Metric{InDom: n.indom}, []row{
		{3, 0, "network.interface.in.bytes", u64, counter, octet, sumCounters(inBytes)},
		{3, 1, "network.interface.in.packets", u64, counter, count, sumCounters(inPackets)},
		{3, 2, "network.interface.in.errors", u64, counter, count, sumCounters(inErrors)},
		{3, 3, "network.interface.in.drops", u64, counter, count, sumCounters(inDrops)},
		{3, 4, "network.interface.in.fifo", u64, counter, count, sumCounters(inFIFO)},
		{3, 5, "network.interface.in.frame", u64, counter, count, sumCounters(inFrame)},
		{3, 6, "network.interface.in.compressed", u64, counter, count, sumCounters(inCompressed)},
		{3, 7, "network.interface.in.mcasts", u64, counter, count, sumCounters(inMulticasts)},
		{3, 8, "network.interface.out.bytes", u64, counter, octet, sumCounters(outBytes)},
		{3, 9, "network.interface.out.packets", u64, counter, count, sumCounters(outPackets)},
		{3, 10, "network.interface.out.errors", u64, counter, count, sumCounters(outErrors)},
		{3, 11, "network.interface.out.drops", u64, counter, count, sumCounters(outDrops)},
		{3, 12, "network.interface.out.fifo", u64, counter, count, sumCounters(outFIFO)},
		{3, 13, "network.interface.collisions", u64, counter, count, sumCounters(collisions)},
		{3, 14, "network.interface.out.carrier", u64, counter, count, sumCounters(outCarrier)},
		{3, 15, "network.interface.out.compressed", u64, counter, count, sumCounters(outCompressed)},
		{3, 16, "network.interface.total.bytes", u64, counter, octet, sumCounters(inBytes, outBytes)},
		{3, 17, "network.interface.total.packets", u64, counter, count, sumCounters(inPackets, outPackets)},
		{3, 18, "network.interface.total.errors", u64, counter, count, sumCounters(inErrors, outErrors)},
		{3, 19, "network.interface.total.drops", u64, counter, count, sumCounters(inDrops, outDrops)},
		{3, 20, "network.interface.total.mcasts", u64, counter, count, sumCounters(inMulticasts)},
		{3, 21, "network.interface.mtu", u32, instant, octet, mtu},
		{3, 22, "network.interface.speed", float, discrete, mbyteSec, speed},
		{3, 23, "network.interface.baudrate", u64, discrete, bytesSec, baudrate},
		{3, 24, "network.interface.duplex", u32, discrete, none, duplex},
		{3, 25, "network.interface.up", u32, instant, none, isUp},
		{3, 26, "network.interface.running", u32, instant, none, isRunning},
		{3, 28, "network.interface.wireless", u32, discrete, none, wireless},
		{3, 29, "network.interface.type", u32, discrete, none, typ},
		{3, 30, "network.interface.virtual", u32, discrete, none, virtual},
	}), table(pmda.Metric{Source: n.source}, []row{
		{3, 27, "hinv.ninterface", u32, discrete, none, active},
	})...)
}
