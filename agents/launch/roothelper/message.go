package roothelper

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gopcp/pmcd/pmcdconf"
)

// A kind is what a message says.
type kind byte

const (
	msgStart       kind = iota + 1 // of the daemon
	msgStop                        // of the daemon
	msgAskHostName                 // of the daemon
	msgStarted                     // of the root helper, as are those below
	msgRefused
	msgExited
	msgStopped
	msgHostName
	msgUntrusted // as refused, but the daemon may start it itself
)

// A message is one packet on the socket: its kind and its id in 5 bytes, then
// what that kind has, numbers in network byte order. The descriptors that come
// with it are not in here.
type message struct {
	kind kind
	id   uint32 // of a process or a question, chosen by the daemon

	domain uint32            // start: of the agent
	digest [sha256.Size]byte // start: of its line
	now    bool              // stop: do not wait for it to end by itself
	pid    uint32            // started
	status uint32            // ended: as of wait(2)
	text   string            // ask: a container; named: its host; refused: why; untrusted: see Untrusted
}

// maxMessage is more than any message has, in bytes.
const maxMessage = 1024

// maxText is how much of a text is sent, in bytes.
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
	case msgStarted:
		b = binary.BigEndian.AppendUint32(b, m.pid)
	case msgExited:
		b = binary.BigEndian.AppendUint32(b, m.status)
	case msgAskHostName, msgHostName, msgRefused, msgUntrusted:
		b = append(b, m.text[:min(len(m.text), maxText)]...)
	}
	return b
}

var errMessage = errors.New("not a message")

// parseMessage reads one packet, which may hold anything.
func parseMessage(b []byte) (message, error) {
	if len(b) < 5 || len(b) > maxMessage {
		return message{}, fmt.Errorf("%w: %d bytes", errMessage, len(b))
	}
	m := message{kind: kind(b[0]), id: binary.BigEndian.Uint32(b[1:])}
	b = b[5:]
	size := map[kind]int{msgStart: 4 + sha256.Size, msgStop: 1, msgStarted: 4, msgExited: 4, msgAskHostName: len(b), msgHostName: len(b), msgRefused: len(b), msgUntrusted: len(b)}[m.kind]
	switch {
	case m.kind < msgStart || m.kind > msgUntrusted:
		return message{}, fmt.Errorf("%w: kind %d", errMessage, m.kind)
	case len(b) != size:
		return message{}, fmt.Errorf("%w: %d bytes more for kind %d", errMessage, len(b), m.kind)
	}
	switch m.kind {
	case msgStart:
		m.domain = binary.BigEndian.Uint32(b)
		copy(m.digest[:], b[4:])
	case msgStop:
		if b[0] > 1 {
			return message{}, fmt.Errorf("%w: %d is neither yes nor no", errMessage, b[0])
		}
		m.now = b[0] == 1
	case msgStarted:
		m.pid = binary.BigEndian.Uint32(b)
	case msgExited:
		m.status = binary.BigEndian.Uint32(b)
	case msgAskHostName, msgHostName, msgRefused, msgUntrusted:
		m.text = string(b)
	}
	return m, nil
}

// digest is the same for two lines if the same would be started for them.
func digest(a *pmcdconf.Agent) [sha256.Size]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%q %d %d %q %q %q %q %q",
		a.Name, a.Domain, a.Kind, a.Entry, a.Path, a.Family, a.Address, a.Argv))
}
