package root

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gopcp/pmcd/pdu"
)

// Types of messages (pcp/pmdaroot.h); the reply has the type of the request plus 1.
const (
	msgInfo      = 0x9000
	msgHostName  = 0x9001
	msgProcessID = 0x9003
	msgCgroup    = 0x9005
	msgStart     = 0x9007
	msgStop      = 0x9009
)

const (
	version   = 2
	headerLen = 16
	// Lengths of whole messages, in bytes.
	infoLen      = headerLen + 8
	askLen       = headerLen + 8 // without the name
	startLen     = headerLen + 24 + 64
	stopLen      = headerLen + 16
	maxNameLen   = 4096
	maxStartArgs = 4096
	features     = 1 | 2 | 4 // host names, process ids, control groups
)

// A request is a message of a client. The numbers are in the byte order of the host.
//
//	type, length, status, version       of all messages
//	pid, length of the name, name       HOSTNAME, PROCESSID, CGROUPNAME
//	pid, ...                            STARTPMDA, STOPPMDA
type request struct {
	typ  int32
	pid  int32
	name string
}

var errMessage = errors.New("bad protocol exchange")

// readRequest reads a request. It reads no byte of the next one. A client can begin a
// request and send no more, so the caller sets a deadline when begun is called.
func readRequest(r io.Reader, begun func()) (request, error) {
	var b [headerLen + 8 + maxNameLen]byte
	if _, err := io.ReadFull(r, b[:1]); err != nil {
		return request{}, err
	}
	begun()
	if _, err := io.ReadFull(r, b[1:headerLen]); err != nil {
		return request{}, incomplete(err)
	}
	word := func(i int) int32 { return int32(binary.NativeEndian.Uint32(b[4*i:])) }
	q := request{typ: word(0)}
	length := int64(word(1))
	lowest, highest := int64(askLen), int64(askLen+maxNameLen)
	switch q.typ {
	case msgHostName, msgProcessID, msgCgroup:
	case msgStart:
		lowest, highest = headerLen+4, startLen+maxStartArgs
	case msgStop:
		lowest, highest = headerLen+4, stopLen
	default:
		return request{}, fmt.Errorf("%w: type %#x", errMessage, uint32(q.typ))
	}
	switch {
	case word(2) < 0:
		return request{}, fmt.Errorf("%w: type %#x, status %d", errMessage, q.typ, word(2))
	case word(3) > version:
		return request{}, fmt.Errorf("%w: type %#x, version %d", errMessage, q.typ, word(3))
	case length < lowest || length > highest:
		return request{}, fmt.Errorf("%w: type %#x, %d bytes", errMessage, q.typ, length)
	}
	body := b[headerLen:min(length, int64(len(b)))]
	if _, err := io.ReadFull(r, body); err != nil {
		return request{}, incomplete(err)
	}
	// The arguments of STARTPMDA may be longer, and are not used.
	if _, err := io.CopyN(io.Discard, r, length-headerLen-int64(len(body))); err != nil {
		return request{}, incomplete(err)
	}
	q.pid = word(4)
	if q.typ == msgStart || q.typ == msgStop {
		return q, nil
	}
	n := int64(word(5))
	if n < 0 || n > length-askLen || n == 0 && q.typ != msgHostName {
		return request{}, fmt.Errorf("%w: type %#x, a name of %d bytes in %d", errMessage, q.typ, n, length-askLen)
	}
	q.name = string(body[8 : 8+n])
	return q, nil
}

// incomplete returns the error for a request that is not complete.
func incomplete(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// appendHeader appends the header of a message.
func appendHeader(b []byte, typ int32, length int, status int32) []byte {
	for _, n := range []int32{typ, int32(length), status, version} {
		b = binary.NativeEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// appendInfo appends the message that a client gets first.
func appendInfo(b []byte) []byte {
	b = appendHeader(b, msgInfo, infoLen, 0)
	b = binary.NativeEndian.AppendUint32(b, features)
	return binary.NativeEndian.AppendUint32(b, 0)
}

// appendReply appends the reply to a request about a container.
func appendReply(b []byte, typ, status int32, pid int, name string) []byte {
	name = name[:min(len(name), maxNameLen-1)] // clients add a NUL
	b = appendHeader(b, typ+1, askLen+len(name), status)
	b = binary.NativeEndian.AppendUint32(b, uint32(int32(pid)))
	b = binary.NativeEndian.AppendUint32(b, uint32(len(name)))
	return append(b, name...)
}

// appendDenied appends the reply to a request to start or end an agent. It has the
// length of the reply of pmdaroot, which its clients expect.
func appendDenied(b []byte, q request) []byte {
	length := startLen
	pid := int32(-1)
	if q.typ == msgStop {
		length, pid = stopLen, q.pid
	}
	begin := len(b)
	b = appendHeader(b, q.typ+1, length, int32(pdu.ErrnoPermission))
	b = binary.NativeEndian.AppendUint32(b, uint32(pid))
	return append(b, make([]byte, length-(len(b)-begin))...)
}
