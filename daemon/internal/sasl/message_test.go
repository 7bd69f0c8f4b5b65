package sasl

import (
	"bytes"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

func TestParse(t *testing.T) {
	long := func(kind string, n int) string { return kind + strings.Repeat("x", n) }
	for _, c := range []struct {
		name, packet string
		control      bool
		want         message
		ok           bool
	}{
		{"ready", "Rlibsasl2.so.2", true, message{kind: 'R', text: "libsasl2.so.2"}, true},
		{"ready on the socket of a login", "Rx", false, message{}, false},
		{"mechanisms on the socket of the helper", "MPLAIN", true, message{}, false},
		{"empty", "", true, message{}, false},
		{"unknown", "Zx", false, message{}, false},
		{"mechanisms", "MPLAIN LOGIN", false, message{kind: 'M', text: "PLAIN LOGIN"}, true},
		{"no mechanisms", "M", false, message{}, false},
		{"mechanisms with a newline", "MPLAIN\nLOGIN", false, message{}, false},
		{"mechanisms that are not ASCII", "MPL\xc3\x84IN", false, message{}, false},
		{"challenge", "C\x00\xff", false, message{kind: 'C', data: []byte("\x00\xff")}, true},
		{"empty challenge", "C", false, message{kind: 'C', data: []byte{}}, true},
		{"largest challenge", long("C", MaxPayload), false, message{kind: 'C', data: bytes.Repeat([]byte("x"), MaxPayload)}, true},
		{"challenge that is too long", long("C", MaxPayload+1), false, message{}, false},
		{"user", "Oalice", false, message{kind: 'O', text: "alice"}, true},
		{"no user", "O", false, message{}, false},
		{"user with a NUL", "Oali\x00ce", false, message{}, false},
		{"user with a newline", "Oali\nce", false, message{}, false},
		{"user that is too long", long("O", maxUser+1), false, message{}, false},
		{"failed", "E\xff\xff\xac\x93", false, message{kind: 'E', code: -21357}, true},
		{"failed, with text", "E\xff\xff\xac\x93alice", false, message{}, false},
		{"nothing to send", "E\xff\xff\xff\xea", false, message{kind: 'E', code: -22}, true},
		{"failed with success", "E\x00\x00\x00\x00", false, message{}, false},
		{"failed with another code", "E\xff\xff\xcf\x9a", false, message{}, false},
		{"failed without code", "E\xff\xff", false, message{}, false},
		{"text", "T\x00\x00\x00\x02no\nuser\xff", false, message{kind: 'T', level: 2, text: "no user?"}, true},
		{"text with another level", "T\x00\x00\x00\x07secret", false, message{}, false},
		{"text that is too long", long("T\x00\x00\x00\x01", maxText+1), true, message{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			parse := parseReply
			if c.control {
				parse = parseControl
			}
			m, err := parse([]byte(c.packet))
			if (err == nil) != c.ok || c.ok && !equal(m, c.want) {
				t.Errorf("got %+v, %v; want %+v", m, err, c.want)
			}
		})
	}
}

func equal(a, b message) bool {
	return a.kind == b.kind && bytes.Equal(a.data, b.data) && a.text == b.text && a.level == b.level && a.code == b.code
}

// What a parser accepts is within the limits, and safe for logs and clients.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"Rlibsasl2.so.2", "Nno library", "MPLAIN LOGIN", "Cabc", "Oalice", "E\xff\xff\xac\x93alice", "T\x00\x00\x00\x01text"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, parse := range []func([]byte) (message, error){parseControl, parseReply} {
			m, err := parse(b)
			if err != nil {
				continue
			}
			if len(m.data) > MaxPayload || len(m.text) > MaxPayload || strings.ContainsAny(m.text, "\x00\n\r\x1b") ||
				m.kind == msgFailed && m.code >= 0 || m.kind == msgFailed && m.code != -22 && m.code >= pdu.ErrnoNYI ||
				m.kind == msgText && (m.level < 1 || m.level > 3) {
				t.Errorf("%q is %+v", b, m)
			}
		}
	})
}
