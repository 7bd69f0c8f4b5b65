package sasl_test

import (
	"log/slog"
	"testing"

	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pdu"
)

func TestPeerCodes(t *testing.T) {
	h := newHarness(t, database+"mech_list: plain login scram-sha-256 cram-md5 digest-md5\n", nil)
	for _, c := range []struct {
		name     string
		messages []string
		user     string // of the login, successful or failed
		code     pdu.Errno
	}{
		{"PLAIN", []string{plain("alice", password)}, "alice", 0},
		{"name of the mechanism in lower case", []string{"plain\x00\x00alice\x00" + password}, "alice", 0},
		{"authorized as the same user", []string{"PLAIN\x00alice\x00alice\x00" + password}, "alice", 0},
		{"authorized as another user", []string{"PLAIN\x00bob\x00alice\x00" + password}, "", -21357},
		{"blanks around the name", []string{plain(" alice ", password)}, "alice", 0},
		{"wrong password", []string{plain("alice", "wrong")}, "", -21357},
		{"unknown user", []string{plain("mallory", password)}, "", -21364},
		{"user in another realm", []string{plain("alice@elsewhere", password)}, "", -21364},
		{"mechanism without NUL", []string{"PLAIN", "\x00alice\x00" + password}, "alice", 0},
		{"mechanism with NUL only", []string{"PLAIN\x00"}, "", -21349},
		{"one NUL missing", []string{"PLAIN\x00alice\x00" + password}, "", -21349},
		{"bytes after the password", []string{plain("alice", password+"\x00x")}, "", -21349},
		{"unknown mechanism", []string{"NONESUCH\x00"}, "", -21348},
		{"mechanism that is not in the list", []string{"ANONYMOUS\x00x"}, "", -21348},
		{"EXTERNAL", []string{"EXTERNAL\x00x"}, "", -21348},
		{"empty message", []string{""}, "", -21351},
		{"LOGIN", []string{"LOGIN", "alice", password}, "alice", 0},
		{"LOGIN with the wrong password", []string{"LOGIN", "alice", "wrong"}, "", -21357},
		{"SCRAM-SHA-256 of an unknown user", []string{"SCRAM-SHA-256\x00n,,n=mallory,r=abc"}, "", -21364},
		{"SCRAM-SHA-256-PLUS", []string{"SCRAM-SHA-256-PLUS\x00n,,n=mallory,r=abc"}, "", -21364},
		{"CRAM-MD5 with a NUL", []string{"CRAM-MD5\x00"}, "", -21349},
		{"DIGEST-MD5 with a NUL, and nonsense", []string{"DIGEST-MD5\x00", "nonsense"}, "", -21357},
		{"message that is too long", []string{plain("alice", string(make([]byte, 2048)))}, "", -12366},
	} {
		t.Run(c.name, func(t *testing.T) {
			challenges, user, err := h.logInFrom(login(c.name), c.messages...)
			if user != c.user || code(err) != c.code || (err == nil) != (c.code == 0) {
				t.Errorf("got user %q, code %d, error %v after %q; want %q, %d", user, code(err), err, challenges, c.user, c.code)
			}
		})
	}
	for text, level := range map[string]slog.Level{
		"Password verification failed": logtext.LevelAlert,
		"Couldn't find mech NONESUCH":  logtext.LevelAlert,
	} {
		if list := h.log.With(text); len(list) != 1 || list[0].Level != level {
			t.Errorf("%q is in the log as %+v, want it once with level %v", text, list, level)
		}
	}
}
