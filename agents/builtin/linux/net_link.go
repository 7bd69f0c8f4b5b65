package linux

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"unsafe"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// A link is what the kernel tells of an interface in one reply for all of them, see
// rtnetlink(7). The files of /sys may be those of another network name space, and to
// read them for 1,000 interfaces takes ten times as long.
type link struct {
	name  []byte
	mtu   uint64
	flags uint64
	typ   uint64 // ARPHRD_* of net/if_arp.h
	known bool   // else the interface came or went meanwhile
}

// eachLink calls f for each interface. The argument is valid until f returns.
func (n *netlink) eachLink(f func(link)) error {
	return n.dump(syscall.RTM_GETLINK, syscall.AF_UNSPEC, func(b []byte, seq uint32) (bool, error) {
		return eachMessage(b, seq, syscall.RTM_NEWLINK, func(body []byte) {
			if l := parseLink(body); len(l.name) > 0 {
				f(l)
			}
		})
	})
}

// parseLink parses the body of RTM_NEWLINK.
func parseLink(b []byte) (l link) {
	if len(b) < syscall.SizeofIfInfomsg {
		return l
	}
	word := binary.NativeEndian
	l.known = true
	l.typ, l.flags = uint64(word.Uint16(b[2:])), uint64(word.Uint32(b[8:]))
	eachAttr(b[syscall.SizeofIfInfomsg:], func(typ uint16, value []byte) {
		switch {
		case typ == syscall.IFLA_IFNAME:
			l.name, _, _ = bytes.Cut(value, []byte{0})
		case typ == syscall.IFLA_MTU && len(value) >= 4:
			l.mtu = uint64(word.Uint32(value))
		}
	})
	return l
}

// linkOfSys returns what the files of /sys tell: of a recorded host, and where the kernel does not reply.
func (n *interfaces) linkOfSys(f *iface) (l link) {
	l.known = true
	l.mtu, _ = sysfile.Uint(n.value(f, "mtu"))
	l.typ, _ = sysfile.Uint(n.value(f, "type"))
	if hex, ok := bytes.CutPrefix(n.value(f, "flags"), []byte("0x")); ok {
		l.flags, _ = sysfile.Hex(hex)
	}
	switch string(n.value(f, "operstate")) {
	case "up", "unknown":
		if l.flags&up != 0 {
			l.flags |= running
		}
	}
	return l
}

// A linkMode is the speed of an interface in megabits a second, and its duplex: 1 is half, 2 is
// full. 0 is not known.
type linkMode struct {
	speed  uint64
	duplex uint8
}

// Of linux/sockios.h and linux/ethtool.h.
const (
	siocEthtool = 0x8946
	ethtoolGet  = 1 // ETHTOOL_GSET
)

// ethtoolMode asks the driver of an interface. A driver without speed has no mode. The socket must
// be open.
func (h *host) ethtoolMode(name string) (m linkMode) {
	var cmd [11]uint32 // struct ethtool_cmd
	var req struct {   // struct ifreq
		name [syscall.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	if len(name) >= len(req.name) {
		return m
	}
	copy(req.name[:], name)
	cmd[0], req.data = ethtoolGet, unsafe.Pointer(&cmd)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(h.ioctlSocket), siocEthtool, uintptr(unsafe.Pointer(&req))); errno != 0 {
		return m
	}
	b := (*[44]byte)(unsafe.Pointer(&cmd))
	low, high := binary.NativeEndian.Uint16(b[12:]), binary.NativeEndian.Uint16(b[28:])
	if mbit := uint64(high)<<16 | uint64(low); mbit <= 1<<31-1 { // -1 is unknown
		m.speed = mbit
	}
	if b[14] <= 1 { // DUPLEX_HALF, DUPLEX_FULL
		m.duplex = b[14] + 1
	}
	return m
}

// openIoctlSocket opens the socket of ethtoolMode, in the network name space of the host or of the
// container.
func (h *host) openIoctlSocket() error {
	if h.ioctlSocket != 0 {
		return nil
	}
	open := func() (err error) {
		h.ioctlSocket, err = syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
		if err != nil {
			h.ioctlSocket = 0
		}
		return err
	}
	if h.container != nil {
		return h.container.inNetworkNamespace(open)
	}
	return open()
}

// modeOfSys returns the mode of the interface of a recorded host. The kernel shows none of one
// that is down, and no duplex of one without speed.
func (n *interfaces) modeOfSys(f *iface) (m linkMode) {
	if n.link(f).flags&up == 0 && len(n.value(f, "flags")) > 0 {
		return m
	}
	d := n.device(f)
	if mbit, ok := sysfile.Uint(d.Reread("speed")); ok && mbit <= 1<<31-1 {
		m.speed = mbit
	}
	if d.Absent("speed", sysfile.Link) {
		return m
	}
	switch string(d.Reread("duplex")) {
	case "half":
		m.duplex = 1
	case "full":
		m.duplex = 2
	}
	return m
}
