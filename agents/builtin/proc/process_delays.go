package proc

import (
	"encoding/binary"
	"errors"
	"os"
	"syscall"
)

// Fields of the record of delays, in nanoseconds.
const (
	delayCPU = iota
	delayBlkio
	delaySwapin
	numDelays
)

// readDelays reads the times for which a process, or rather its first thread, has
// waited, see the kernel's Documentation/accounting/delay-accounting.rst. The kernel
// tells them only to processes with CAP_NET_ADMIN, so only clients of root get them.
func readDelays(p *process, r record) error {
	t := p.tree
	if t.delays == nil || t.impersonating && t.effectiveUID != 0 {
		return nil
	}
	d, ok := t.delays(p.id)
	if ok {
		for i, n := range d {
			r.set(i, n)
		}
		r.state[r.row] = filled
	}
	return nil
}

// taskstats asks the kernel for the delays of threads, through a socket of generic
// netlink, see the kernel's Documentation/accounting/taskstats.rst. The socket is
// open during a request of a client only.
type taskstats struct {
	fd      int // -1 if it is not open
	family  uint16
	missing bool // the kernel does not have taskstats
	seq     uint32
	buf     [4096]byte
}

func newTaskstats() *taskstats { return &taskstats{fd: -1} }

// Of linux/genetlink.h and linux/taskstats.h.
const (
	genlIDCtrl         = 0x10
	ctrlCmdGetFamily   = 3
	ctrlAttrFamilyID   = 1
	ctrlAttrFamilyName = 2

	taskstatsCmdGet      = 1
	taskstatsCmdAttrPID  = 1
	taskstatsTypeStats   = 3
	taskstatsTypeAggrPID = 4

	genlHeader = 4
	attrHeader = 4
)

// of returns the delays of a thread. ok is false if the kernel does not tell them.
func (s *taskstats) of(tid int32) (d [numDelays]uint64, ok bool) {
	if !s.open() {
		return d, false
	}
	var attr [4]byte
	binary.NativeEndian.PutUint32(attr[:], uint32(tid))
	reply, err := s.request(s.family, taskstatsCmdGet, taskstatsCmdAttrPID, attr[:])
	if err != nil {
		return d, false
	}
	return parseTaskstats(reply)
}

// parseTaskstats returns the delays in a struct taskstats of a reply.
func parseTaskstats(attrs []byte) (d [numDelays]uint64, ok bool) {
	b := netlinkAttr(netlinkAttr(attrs, taskstatsTypeAggrPID), taskstatsTypeStats)
	if len(b) < 64 {
		return d, false
	}
	// Each count is followed by the total.
	d[delayCPU] = binary.NativeEndian.Uint64(b[24:])
	d[delayBlkio] = binary.NativeEndian.Uint64(b[40:])
	d[delaySwapin] = binary.NativeEndian.Uint64(b[56:])
	return d, true
}

// open opens the socket and asks for the number of the family, which is none in other
// network name spaces than the first.
func (s *taskstats) open() bool {
	if s.fd >= 0 || s.missing {
		return !s.missing
	}
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, syscall.NETLINK_GENERIC)
	if err != nil {
		s.missing = errors.Is(err, syscall.EPROTONOSUPPORT)
		return false
	}
	s.fd = fd
	reply, err := s.request(genlIDCtrl, ctrlCmdGetFamily, ctrlAttrFamilyName, []byte("TASKSTATS\x00"))
	id := netlinkAttr(reply, ctrlAttrFamilyID)
	if err != nil || len(id) < 2 {
		s.missing = err == nil || errors.Is(err, syscall.ENOENT)
		s.close()
		return false
	}
	s.family = binary.NativeEndian.Uint16(id)
	return true
}

func (s *taskstats) close() {
	if s.fd >= 0 {
		syscall.Close(s.fd)
		s.fd = -1
	}
}

// request sends a request with one attribute, and returns the attributes of the
// reply. They are valid until the next request. The kernel replies before the write
// returns. After an error of the socket it is closed, so that no reply is left in it.
func (s *taskstats) request(family uint16, cmd byte, attr uint16, value []byte) ([]byte, error) {
	s.seq++
	b := s.buf[:0]
	e := binary.NativeEndian
	size := syscall.SizeofNlMsghdr + genlHeader + attrHeader + len(value)
	b = e.AppendUint32(b, uint32((size+3)&^3))
	b = e.AppendUint16(b, family)
	b = e.AppendUint16(b, syscall.NLM_F_REQUEST)
	b = e.AppendUint32(b, s.seq)
	b = e.AppendUint32(b, 0)
	b = append(b, cmd, 1, 0, 0)
	b = e.AppendUint16(b, uint16(attrHeader+len(value)))
	b = e.AppendUint16(b, attr)
	b = append(b, value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	n, err := syscall.Write(s.fd, b)
	if err == nil {
		n, err = syscall.Read(s.fd, s.buf[:])
	}
	if err != nil {
		s.close()
		return nil, os.NewSyscallError("netlink", err)
	}
	return netlinkReply(s.buf[:n], s.seq)
}

// netlinkReply returns the attributes of a message, or the error that it has.
func netlinkReply(b []byte, seq uint32) ([]byte, error) {
	const header = syscall.SizeofNlMsghdr + genlHeader
	e := binary.NativeEndian
	if len(b) < header || e.Uint32(b) < header || e.Uint32(b) > uint32(len(b)) || e.Uint32(b[8:]) != seq {
		return nil, syscall.EBADMSG
	}
	if e.Uint16(b[4:]) == syscall.NLMSG_ERROR {
		if errno := int32(e.Uint32(b[syscall.SizeofNlMsghdr:])); errno < 0 {
			return nil, syscall.Errno(-errno)
		}
		return nil, syscall.EBADMSG
	}
	return b[header:e.Uint32(b)], nil
}

// netlinkAttr returns the value of the first attribute of a type, or nothing.
func netlinkAttr(b []byte, typ uint16) []byte {
	const flags = 0xc000 // NLA_F_NESTED, NLA_F_NET_BYTEORDER
	for len(b) >= attrHeader {
		size := int(binary.NativeEndian.Uint16(b))
		if size < attrHeader || size > len(b) {
			return nil
		}
		if binary.NativeEndian.Uint16(b[2:])&^flags == typ {
			return b[attrHeader:size]
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return nil
}
