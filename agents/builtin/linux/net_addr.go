package linux

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// addresses is the instance domain of interfaces and of address labels, such as
// eth0:1 (ip-address(8)), with their addresses. Instances get their ids in the order
// of /sys, then of IPv4 addresses, then of IPv6 addresses.
//
// C differs: the order depends on which metrics are fetched first.
type addresses struct {
	h          *host
	inet6      *sysfile.File
	instances  *instances[address]
	list       []*address // those in /sys
	text       []byte     // buffer for the text of an address
	generation uint64     // host.netGeneration of the last read
	ipv4       []ipv4     // those of the last read
	labels     []byte     // of these

	// These are called for each name in /sys and for each IPv4 address. They are
	// fields because a closure in each read would be allocated.
	addName func(name []byte, typ byte)
	addIPv4 func(ipv4)
}

type address struct {
	name  string
	hw    []byte
	inet  netip.Addr
	inet6 netip.Prefix
	scope uint64
}

func newAddresses(h *host) *addresses {
	a := &addresses{h: h, inet6: h.netFile("if_inet6"), instances: newInstances[address](h, indomAddress)}
	a.addName = func(name []byte, _ byte) { a.list = append(a.list, a.instance(name)) }
	a.addIPv4 = func(i ipv4) {
		start := len(a.labels)
		a.labels = append(a.labels, i.label...)
		i.label = a.labels[start:]
		a.ipv4 = append(a.ipv4, i)
	}
	return a
}

func (a *addresses) read(ctx context.Context, r *pmda.Request) error {
	if err := r.ReadSource(ctx, a.h.netChange); err != nil {
		return err
	}
	if a.generation == a.h.netGeneration {
		return nil
	}
	a.generation = 0
	a.instances.begin()
	defer a.instances.end()
	a.list = a.list[:0]
	// Without /sys only interfaces with addresses are instances.
	_ = a.h.viewReader.Path("/sys/class/net").List(a.addName)
	for _, d := range a.list {
		if err := a.h.ended(); err != nil {
			return err
		}
		hw, _ := sysfile.Field(a.h.netDevice(d.name).Value("address"))
		d.hw = append(d.hw, hw...)
	}
	a.ipv4, a.labels = a.ipv4[:0], a.labels[:0]
	err := a.h.ipv4(a.addIPv4) // in a container, on another goroutine
	interrupted := errors.Is(err, errInterrupted)
	if interrupted { // the addresses in the reply are better than none
		err = nil
	}
	for _, i := range a.ipv4 {
		if d := a.instance(i.label); !d.inet.IsValid() {
			d.inet = i.addr
		}
	}
	b, err6 := a.inet6.Read()
	a.parse6(b)
	err = cmp.Or(err, err6, a.h.ended())
	if err == nil && !interrupted {
		a.generation = a.h.netGeneration
	}
	return err
}

// instance returns the address with a name. The first call in a refresh clears it.
func (a *addresses) instance(name []byte) *address {
	if d := a.instances.add(name); d != nil {
		if d.name == "" {
			d.name = string(name)
		}
		d.hw, d.inet, d.inet6 = d.hw[:0], netip.Addr{}, netip.Prefix{}
		return d
	}
	if d := a.instances.get(string(name)); d != nil {
		return d
	}
	return new(address) // not a valid name
}

// parse6 reads /proc/net/if_inet6, proc(5). All numbers are hexadecimal. If an
// interface has several addresses, the last one counts.
//
//	fe8000000000000000fc00fffe000001 04 40 20 80     eth0
func (a *addresses) parse6(b []byte) {
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		var w [6][]byte
		for i := range w {
			w[i], line = sysfile.Field(line)
		}
		hi, ok1 := sysfile.Hex(w[0][:min(16, len(w[0]))])
		lo, ok2 := sysfile.Hex(w[0][min(16, len(w[0])):])
		bits, ok3 := sysfile.Hex(w[2])
		scope, ok4 := sysfile.Hex(w[3])
		if !ok1 || !ok2 || !ok3 || !ok4 || len(w[0]) != 32 || bits > 128 || len(w[5]) == 0 {
			continue
		}
		var ip [16]byte
		binary.BigEndian.PutUint64(ip[:], hi)
		binary.BigEndian.PutUint64(ip[8:], lo)
		d := a.instance(w[5])
		d.inet6 = netip.PrefixFrom(netip.AddrFrom16(ip), int(bits))
		d.scope = scope
	}
}

// scopeName returns the name that pmdalinux has for a scope of if_inet6.
func scopeName(scope uint64) string {
	switch scope {
	case 0:
		return "Global"
	case 0x10:
		return "Host"
	case 0x20:
		return "Link"
	case 0x40:
		return "Site"
	case 0x80:
		return "Compat"
	}
	return "Unknown"
}

func (a *addresses) metrics() []pmda.Metric {
	indom := &pmda.InDom{
		Serial: indomAddress,
		Insts:  a.instances,
		Source: &pmda.Source{Read: a.read},
		Labels: interfaceLabels,
	}
	inet := pmda.FromData(func(v *pmda.Value, d *address) {
		if d.inet.IsValid() {
			a.text = d.inet.AppendTo(a.text[:0])
			v.SetBytes(a.text)
		}
	})
	inet6 := pmda.FromData(func(v *pmda.Value, d *address) {
		if d.inet6.IsValid() {
			a.text = d.inet6.AppendTo(a.text[:0])
			v.SetBytes(a.text)
		}
	})
	scope := pmda.FromData(func(v *pmda.Value, d *address) {
		if d.inet6.IsValid() {
			v.SetString(scopeName(d.scope))
		}
	})
	hw := pmda.FromData(func(v *pmda.Value, d *address) {
		if len(d.hw) > 0 {
			v.SetBytes(d.hw)
		}
	})
	return table(pmda.Metric{InDom: indom}, []row{
		{33, 0, "network.interface.inet_addr", str, discrete, none, inet},
		{33, 1, "network.interface.ipv6_addr", str, discrete, none, inet6},
		{33, 2, "network.interface.ipv6_scope", str, discrete, none, scope},
		{33, 3, "network.interface.hw_addr", str, discrete, none, hw},
	})
}
