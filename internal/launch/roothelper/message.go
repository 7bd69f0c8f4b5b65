package roothelper

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gopcp/pmcd/pmcdconf"
)

// A kind is the type of a message.
type kind byte

const (
	msgStart       kind = iota + 1 // sent by the daemon
	msgStop                        // sent by the daemon
	msgAskHostName                 // sent by the daemon
	msgStarted                     // sent by the root helper, as are those below
	msgRefused
	msgExited
	msgStopped
	msgHostName
	msgUntrusted  // like refused, but the daemon may start the agent itself
	msgAskProcess // sent by the daemon
	msgProcess
)

// A message is one packet on the socket: its kind (1 byte), its id (4 bytes), and
// the fields of that kind. Numbers are in network byte order. Descriptors are
// passed beside it as control messages.
type message struct {
	kind kind
	id   uint32 // of a process or a request, chosen by the daemon

	domain uint32            // start: of the agent
	digest [sha256.Size]byte // start: of its line in pmcd.conf, see digest
	now    bool              // stop: kill the process at once
	pid    uint32            // started; process: the first of the container
	status uint32            // exited: as of wait(2)
	text   string            // askHostName, askProcess: a container; hostName: the name; refused: the reason; untrusted: an encoded Untrusted
}

// maxMessage is the largest size of a message, in bytes.
const maxMessage = 1024

// maxText is the most bytes of a text that are sent; the rest is cut off.
const maxText = maxMessage - 5

func (m *message) append(b []byte) []byte {
	b = append(b, byte(m.kind))
	b = binary.BigEndian.AppendUint32(b, m.id)
	switch m.kind {
	case msgStart:
		b = binary.BigEndian.AppendUint32(b, m.domain)
		b = append(b, m.digest[:]...)
	case msgStop:
		if m.now {
			return append(b, 1)
		}
		return append(b, 0)
	case msgStarted, msgProcess:
		b = binary.BigEndian.AppendUint32(b, m.pid)
	case msgExited:
		b = binary.BigEndian.AppendUint32(b, m.status)
	case msgAskHostName, msgAskProcess, msgHostName, msgRefused, msgUntrusted:
		b = append(b, m.text[:min(len(m.text), maxText)]...)
	}
	return b
}

var errMessage = errors.New("malformed message")

// parseMessage parses one packet, which is not trusted.
func parseMessage(b []byte) (message, error) {
	if len(b) < 5 || len(b) > maxMessage {
		return message{}, fmt.Errorf("%w: %d bytes", errMessage, len(b))
	}
	m := message{kind: kind(b[0]), id: binary.BigEndian.Uint32(b[1:])}
	b = b[5:]
	size := map[kind]int{msgStart: 4 + sha256.Size, msgStop: 1, msgStarted: 4, msgExited: 4, msgProcess: 4, msgAskHostName: len(b), msgAskProcess: len(b), msgHostName: len(b), msgRefused: len(b), msgUntrusted: len(b)}[m.kind]
	switch {
	case m.kind < msgStart || m.kind > msgProcess:
		return message{}, fmt.Errorf("%w: kind %d", errMessage, m.kind)
	case len(b) != size:
		return message{}, fmt.Errorf("%w: %d bytes after the head for kind %d", errMessage, len(b), m.kind)
	}
	switch m.kind {
	case msgStart:
		m.domain = binary.BigEndian.Uint32(b)
		copy(m.digest[:], b[4:])
	case msgStop:
		if b[0] > 1 {
			return message{}, fmt.Errorf("%w: %d is not a bool", errMessage, b[0])
		}
		m.now = b[0] == 1
	case msgStarted, msgProcess:
		m.pid = binary.BigEndian.Uint32(b)
	case msgExited:
		m.status = binary.BigEndian.Uint32(b)
	case msgAskHostName, msgAskProcess, msgHostName, msgRefused, msgUntrusted:
		m.text = string(b)
	}
	return m, nil
}

// digest returns a hash of everything in the line of an agent that determines what
// is started for it.
func digest(a *pmcdconf.Agent) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %d %d %q %q %q %q %q",
		a.Name, a.Domain, a.Kind, a.Entry, a.Path, a.Family, a.Address, a.Argv))
}
