package linux

import (
	"bytes"
	"context"
	"encoding/binary"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/sysfile"
)

// addresses are those of interfaces, and of what ip-address(8) calls labels,
// such as eth0:1. They are instances in the order of first sight: of /sys, of
// IPv4 addresses, of IPv6 addresses.
//
// C differs: the order is that of the first fetches.
type addresses struct {
	h     *host
	inet6 *sysfile.File
	insts *insts[address]
}

type address struct {
	hw, inet string
	inet6    string // with the length of the prefix
	scope    uint64
}

// An ipv4 is an address and its label.
type ipv4 struct {
	label string
	addr  netip.Addr
}

func newAddresses(h *host) *addresses {
	return &addresses{h: h, inet6: h.netFile("if_inet6"), insts: newInsts[address](h, indomAddress)}
}

func (a *addresses) read(context.Context, *pmda.Request) error {
	a.insts.begin()
	defer a.insts.end()
	var names []string
	// Without a /sys there are those that have addresses.
	_ = a.h.own.Path("/sys/class/net").List(func(name []byte, _ byte) { names = append(names, string(name)) })
	for _, name := range names {
		if hw, _ := sysfile.Field(a.h.own.Path("/sys/class/net/").Name(name).Str("/address").Value()); len(hw) > 0 {
			a.of([]byte(name)).hw = string(hw)
		} else {
			a.of([]byte(name))
		}
	}
	list, err := a.h.ipv4()
	for _, i := range list {
		if d := a.of([]byte(i.label)); d.inet == "" {
			d.inet = i.addr.String()
		}
	}
	b, err6 := a.inet6.Read()
	a.parse6(b)
	if err == nil {
		err = err6
	}
	return err
}

// of returns what is known of the instance in this look.
func (a *addresses) of(name []byte) *address {
	if d := a.insts.add(name); d != nil {
		*d = address{}
		return d
	}
	if i := a.insts.known[string(name)]; i != nil {
		return &i.data
	}
	return new(address) // a name that is no good
}

// parse6 reads /proc/net/if_inet6, proc(5). All numbers are hexadecimal; of
// several addresses of an interface the last one counts.
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
		hi, err1 := hexOf(w[0][:min(16, len(w[0]))])
		lo, err2 := hexOf(w[0][min(16, len(w[0])):])
		bits, err3 := hexOf(w[2])
		scope, err4 := hexOf(w[3])
		if err1 != nil || err2 != nil || err3 != nil || err4 != nil || len(w[0]) != 32 || bits > 128 || len(w[5]) == 0 {
			continue
		}
		var ip [16]byte
		binary.BigEndian.PutUint64(ip[:], hi)
		binary.BigEndian.PutUint64(ip[8:], lo)
		d := a.of(w[5])
		d.inet6 = netip.PrefixFrom(netip.AddrFrom16(ip), int(bits)).String()
		d.scope = scope
	}
}

func hexOf(b []byte) (uint64, error) { return strconv.ParseUint(string(b), 16, 64) }

// scopeName is what pmdalinux calls a scope of if_inet6.
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

// kernelIPv4 asks the kernel for the addresses of this process's network name
// space, see rtnetlink(7): no file has them by label.
func kernelIPv4() ([]ipv4, error) {
	b, err := syscall.NetlinkRIB(syscall.RTM_GETADDR, syscall.AF_INET)
	if err != nil {
		return nil, err
	}
	return parseIPv4(b), nil
}

// ipv4 is kernelIPv4 for the container.
func (c *container) ipv4() (list []ipv4, err error) {
	err = c.inNetwork(func() error {
		list, err = kernelIPv4()
		return err
	})
	return list, err
}

// parseIPv4 reads messages of RTM_NEWADDR. Package syscall has parsers for them,
// which panic when a length is not right.
func parseIPv4(b []byte) (list []ipv4) {
	word := binary.NativeEndian
	for len(b) >= syscall.NLMSG_HDRLEN {
		m, rest := cutMessage(b, int(word.Uint32(b)))
		b = rest
		const head = syscall.NLMSG_HDRLEN + syscall.SizeofIfAddrmsg
		if len(m) < head || word.Uint16(m[4:]) != syscall.RTM_NEWADDR {
			continue
		}
		var i ipv4
		for m = m[head:]; len(m) >= syscall.SizeofRtAttr; {
			var a []byte
			a, m = cutMessage(m, int(word.Uint16(m)))
			if len(a) < syscall.SizeofRtAttr {
				break
			}
			switch value := a[syscall.SizeofRtAttr:]; word.Uint16(a[2:]) {
			case syscall.IFA_LABEL:
				label, _, _ := bytes.Cut(value, []byte{0})
				i.label = string(label)
			case syscall.IFA_LOCAL:
				i.addr, _ = netip.AddrFromSlice(value)
			}
		}
		if i.label != "" && i.addr.Is4() {
			list = append(list, i)
		}
	}
	return list
}

// cutMessage returns the first n bytes of b and what is behind them and their
// padding to a multiple of four; nothing if there are not as many.
func cutMessage(b []byte, n int) (m, rest []byte) {
	if n <= 0 || n > len(b) {
		return nil, nil
	}
	return b[:n], b[min((n+3)&^3, len(b)):]
}

func (a *addresses) metrics() []pmda.Metric {
	indom := &pmda.InDom{
		Serial: indomAddress,
		Insts:  a.insts,
		Source: &pmda.Source{Read: a.read},
		Labels: interfaceLabels,
	}
	text := func(f func(a *address) string) pmda.FetchFunc {
		return pmda.Of(func(v *pmda.Value, a *address) {
			if s := f(a); s != "" {
				v.String(s)
			}
		})
	}
	scope := func(a *address) string {
		if a.inet6 == "" {
			return ""
		}
		return scopeName(a.scope)
	}
	return pmda.Table(pmda.Metric{InDom: indom}, []row{
		{33, 0, "network.interface.inet_addr", str, discrete, none, text(func(a *address) string { return a.inet })},
		{33, 1, "network.interface.ipv6_addr", str, discrete, none, text(func(a *address) string { return a.inet6 })},
		{33, 2, "network.interface.ipv6_scope", str, discrete, none, text(scope)},
		{33, 3, "network.interface.hw_addr", str, discrete, none, text(func(a *address) string { return a.hw })},
	})
}
