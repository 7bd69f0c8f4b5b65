package linux

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"syscall"

	"github.com/gopcp/pmcd/internal/rawio"
	"golang.org/x/sys/unix"
)

// An ipv4 is an address and its label, such as eth0:1.
type ipv4 struct {
	label []byte
	addr  netip.Addr
}

// A netlink requests the interfaces and the IPv4 addresses of this process's network name space
// from the kernel, see rtnetlink(7). No file has addresses by label. The socket stays open.
type netlink struct {
	fd  int // 0 if it is not open
	seq uint32
	req [syscall.NLMSG_HDRLEN + syscall.SizeofIfAddrmsg]byte
	buf []byte
}

// each calls f for each address. The argument is valid until f returns.
func (n *netlink) each(f func(ipv4)) error {
	return n.dump(syscall.RTM_GETADDR, syscall.AF_INET, func(b []byte, seq uint32) (bool, error) { return eachIPv4(b, seq, f) })
}

// dump makes a request for all objects of a kind, and calls f for each part of the reply, until
// f reports that it was the last. If objects came or went meanwhile, it makes the request once more.
func (n *netlink) dump(typ uint16, family byte, f func(b []byte, seq uint32) (done bool, err error)) error {
	err := n.dumpOnce(typ, family, f)
	if err == errInterrupted {
		err = n.dumpOnce(typ, family, f)
	}
	return err
}

// errInterrupted is the error of a reply that may lack objects, because others came or went.
var errInterrupted = errors.New("interfaces or addresses changed during the request")

func (n *netlink) dumpOnce(typ uint16, family byte, f func(b []byte, seq uint32) (done bool, err error)) error {
	err := n.open()
	if err == nil {
		err = n.request(typ, family, f)
	}
	if err != nil {
		n.close()
	}
	return err
}

func (n *netlink) open() error {
	if n.fd != 0 {
		return nil
	}
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	n.fd = fd
	if n.buf == nil {
		n.buf = make([]byte, 32<<10) // the largest message of the kernel
	}
	// The kernel replies at once. The timeout makes sure that the agent never hangs.
	return syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Sec: 1})
}

func (n *netlink) close() {
	if n.fd != 0 {
		syscall.Close(n.fd)
		n.fd = 0
	}
}

func (n *netlink) request(typ uint16, family byte, f func([]byte, uint32) (bool, error)) error {
	n.seq++
	word := binary.NativeEndian
	word.PutUint32(n.req[0:], uint32(len(n.req)))
	word.PutUint16(n.req[4:], typ)
	word.PutUint16(n.req[6:], syscall.NLM_F_REQUEST|syscall.NLM_F_DUMP)
	word.PutUint32(n.req[8:], n.seq)
	n.req[syscall.NLMSG_HDRLEN] = family
	if _, err := syscall.Write(n.fd, n.req[:]); err != nil {
		return err
	}
	for {
		size, err := syscall.Read(n.fd, n.buf)
		if err == syscall.EINTR {
			continue
		}
		if err == nil && size == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return err
		}
		if done, err := f(n.buf[:size], n.seq); done || err != nil {
			return err
		}
	}
}

// eachIPv4 calls f for each address in a part of the reply.
func eachIPv4(b []byte, seq uint32, f func(ipv4)) (done bool, err error) {
	return eachMessage(b, seq, syscall.RTM_NEWADDR, func(body []byte) {
		if i := parseIPv4(body); len(i.label) > 0 && i.addr.Is4() {
			f(i)
		}
	})
}

// eachMessage calls f for the body of each message of a type in a part of the reply. done says
// whether it was the last part. The parsers of package syscall are not used because they panic at
// a wrong length.
func eachMessage(b []byte, seq uint32, typ uint16, f func(body []byte)) (done bool, err error) {
	word := binary.NativeEndian
	for len(b) >= syscall.NLMSG_HDRLEN {
		m, rest := cutMessage(b, int(word.Uint32(b)))
		b = rest
		if len(m) < syscall.NLMSG_HDRLEN || word.Uint32(m[8:]) != seq {
			continue
		}
		if word.Uint16(m[6:])&unix.NLM_F_DUMP_INTR != 0 {
			return true, errInterrupted
		}
		body := m[syscall.NLMSG_HDRLEN:]
		switch word.Uint16(m[4:]) {
		case syscall.NLMSG_DONE:
			return true, nil
		case syscall.NLMSG_ERROR:
			if len(body) < 4 {
				return true, syscall.EBADMSG
			}
			return true, syscall.Errno(-int32(word.Uint32(body)))
		case typ:
			f(body)
		}
	}
	return false, nil
}

// parseIPv4 parses the body of RTM_NEWADDR.
func parseIPv4(b []byte) (i ipv4) {
	eachAttr(b[min(len(b), syscall.SizeofIfAddrmsg):], func(typ uint16, value []byte) {
		switch typ {
		case syscall.IFA_LABEL:
			i.label, _, _ = bytes.Cut(value, []byte{0})
		case syscall.IFA_LOCAL:
			i.addr, _ = netip.AddrFromSlice(value)
		}
	})
	return i
}

// eachAttr calls f for each attribute in b.
func eachAttr(b []byte, f func(typ uint16, value []byte)) {
	word := binary.NativeEndian
	for len(b) >= syscall.SizeofRtAttr {
		var a []byte
		a, b = cutMessage(b, int(word.Uint16(b)))
		if len(a) < syscall.SizeofRtAttr {
			break
		}
		f(word.Uint16(a[2:]), a[syscall.SizeofRtAttr:])
	}
}

// cutMessage returns the first n bytes of b, and the bytes after them and their
// padding to a multiple of four. It returns nothing if b has fewer than n bytes.
func cutMessage(b []byte, n int) (m, rest []byte) {
	if n <= 0 || n > len(b) {
		return nil, nil
	}
	return b[:n], b[min((n+3)&^3, len(b)):]
}

// A linkWatch receives the kernel's messages about changes of interfaces and
// addresses in this process's network name space.
type linkWatch struct {
	fd  int // 0 if it is not open
	buf [16]byte
}

// changed reports whether something may have changed since the last call.
func (w *linkWatch) changed() (changed bool) {
	if w.fd == 0 {
		w.open()
		return true
	}
	for {
		// The content of messages does not matter. The buffer has room for a
		// part of each.
		switch _, err := rawio.Read(uintptr(w.fd), w.buf[:]); err {
		case syscall.EAGAIN:
			return changed
		case nil, syscall.EINTR, syscall.ENOBUFS: // ENOBUFS: messages were lost
			changed = true
		default:
			w.close()
			return true
		}
	}
}

// open subscribes to changes. If that fails, w stays closed, and changed always
// returns true.
func (w *linkWatch) open() {
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, syscall.NETLINK_ROUTE)
	if err != nil {
		return
	}
	w.fd = fd
	// One message is as good as many, so the smallest buffer is large enough.
	err = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_RCVBUF, 0)
	if err == nil {
		const groups = unix.RTMGRP_LINK | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV6_IFADDR
		err = syscall.Bind(fd, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK, Groups: groups})
	}
	if err != nil {
		w.close()
	}
}

func (w *linkWatch) close() {
	if w.fd != 0 {
		syscall.Close(w.fd)
		w.fd = 0
	}
}
