package sasl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gopcp/pmcd/pdu"
)

// The messages between pmcd and the helper. Each is a packet of a SOCK_SEQPACKET socket: a
// letter, and what the table says. Numbers have four bytes and are big-endian.
//
// On the socket of the helper:
//
//	pmcd    L  id (8 bytes), and a descriptor   begin a login, whose socket this is
//	pmcd    K  id                               kill the process of this login
//	helper  R  name of the library              ready
//	helper  N  text                             the library cannot be loaded; it ends
//	helper  F  text                             the library rejects its configuration; it ends
//	helper  T  level, text                      a line for the log
//
// On the socket of a login, which the child has that the helper forks for it:
//
//	pmcd    S  strength of TLS in bits          begin
//	child   M  text                             the mechanisms
//	pmcd    D  data                             first the mechanism, a NUL and the initial
//	                                            response, or the mechanism alone; then responses
//	child   C  data                             a challenge: the next D is awaited
//	child   O  user name                        success; it ends
//	child   E  PCP's error code, user name      failure; it ends. The name is empty if not known
//	child   T  level, text                      a line for the log
const (
	msgLogin, msgKill                        = 'L', 'K'
	msgReady, msgNoLibrary, msgRejected      = 'R', 'N', 'F'
	msgBegin, msgData                        = 'S', 'D'
	msgMechs, msgChallenge, msgOK, msgFailed = 'M', 'C', 'O', 'E'
	msgText                                  = 'T'
	maxText, maxUser, maxPacket              = 500, 1023, 1 + 4 + MaxPayload
)

// MaxPayload is the largest payload of a client's message and of a challenge, in bytes, as in
// C pmcd.
const MaxPayload = 2047

// A message is one from the helper, or from the child of a login.
type message struct {
	kind  byte
	data  []byte    // of a challenge
	text  string    // what a human can read: also mechanisms and user names
	level int       // of a text for the log, 1 to 3
	code  pdu.Errno // of a failed login
}

var errMessage = errors.New("the SASL helper has sent an invalid message")

// parseControl parses a message on the socket of the helper.
func parseControl(b []byte) (m message, err error) { return parse(b, "RNFT") }

// parseReply parses a message on the socket of a login. It aliases b.
func parseReply(b []byte) (m message, err error) { return parse(b, "MCOET") }

func parse(b []byte, kinds string) (m message, err error) {
	if len(b) == 0 || strings.IndexByte(kinds, b[0]) < 0 {
		return m, errMessage
	}
	m.kind = b[0]
	b = b[1:]
	limit := maxText
	switch m.kind {
	case msgChallenge:
		if len(b) > MaxPayload {
			return m, errMessage
		}
		m.data = b
		return m, nil
	case msgMechs:
		limit = MaxPayload
	case msgOK:
		limit = maxUser
	case msgText, msgFailed:
		if len(b) < 4 {
			return m, errMessage
		}
		n := int32(binary.BigEndian.Uint32(b))
		b = b[4:]
		if m.kind == msgText {
			m.level = int(n)
			if n < 1 || n > 3 {
				return m, errMessage
			}
			break
		}
		m.code = pdu.Errno(n)
		limit = 0
		if m.code != errnoRejected && (n >= int32(pdu.ErrnoNYI) || n < int32(pdu.ErrnoNYI)-maxResult) {
			return m, errMessage
		}
	}
	if len(b) > limit {
		return m, errMessage
	}
	switch m.text = string(b); m.kind {
	case msgMechs, msgOK: // go to clients and agents, and decide about rights
		if m.text == "" || !utf8.ValidString(m.text) || strings.ContainsFunc(m.text, func(r rune) bool { return !unicode.IsPrint(r) }) || m.kind == msgMechs && !isASCII(m.text) {
			return m, errMessage
		}
	default:
		m.text = printable(m.text)
	}
	return m, nil
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r >= utf8.RuneSelf })
}

// printable returns s for a line of the log.
func printable(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?")))
}

// PCP's error codes of failed logins.
const (
	errnoRejected = pdu.Errno(-22)   // the configuration is rejected, or a mechanism has nothing to send
	errnoFail     = pdu.ErrnoNYI - 1 // SASL_FAIL

	// maxResult is the largest result code of libsasl2, with space for more.
	maxResult = 99
)

// An Error is why a login failed. It wraps PCP's error code for the client, a pdu.Errno.
type Error struct {
	Code   pdu.Errno
	Reason string // "" if the library has given the code
}

func (e *Error) Error() string {
	if e.Reason != "" {
		return e.Reason
	}
	return fmt.Sprintf("login failed: %v", e.Code)
}

// Unwrap returns the code.
func (e *Error) Unwrap() error { return e.Code }

// failed returns an Error for a login that failed without a code of the library.
func failed(format string, args ...any) *Error {
	return &Error{Code: errnoFail, Reason: fmt.Sprintf(format, args...)}
}
