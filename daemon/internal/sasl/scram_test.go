package sasl_test

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/sasl"
)

// scram logs in by SCRAM-SHA-256 (RFC 5802, RFC 7677), and checks the server's signature.
func (h *harness) scram(user, password string) (string, error) {
	h.t.Helper()
	e := h.begin(login(h.t.Name()))
	const nonce = "fyko+d2lbbFgONRv9qkxdawL"
	bare := "n=" + user + ",r=" + nonce
	first := h.challenge(e, "SCRAM-SHA-256\x00n,,"+bare)
	fields := make(map[string]string)
	for f := range strings.SplitSeq(first, ",") {
		name, value, _ := strings.Cut(f, "=")
		fields[name] = value
	}
	salt, err := base64.StdEncoding.DecodeString(fields["s"])
	if err != nil || !strings.HasPrefix(fields["r"], nonce) {
		h.t.Fatalf("unexpected challenge %q", first)
	}
	rounds, err := strconv.Atoi(fields["i"])
	if err != nil {
		h.t.Fatalf("unexpected challenge %q", first)
	}
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		h.t.Fatal(err)
	}
	mac := func(key []byte, text string) []byte {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	final := "c=biws,r=" + fields["r"]
	message := bare + "," + first + "," + final
	key := mac(salted, "Client Key")
	stored := sha256.Sum256(key)
	proof := mac(stored[:], message)
	for i := range proof {
		proof[i] ^= key[i]
	}
	challenge, done, _, err := e.Step(h.t.Context(), []byte(final+",p="+base64.StdEncoding.EncodeToString(proof)))
	if err != nil {
		return "", err
	}
	if want := "v=" + base64.StdEncoding.EncodeToString(mac(mac(salted, "Server Key"), message)); done || string(challenge) != want {
		h.t.Errorf("the last challenge is %q, %v; want %q", challenge, done, want)
	}
	_, done, user, err = e.Step(h.t.Context(), nil) // C pmcd, too, awaits an empty message
	if err != nil || !done {
		h.t.Errorf("after the last challenge: done %v, %v", done, err)
	}
	return user, err
}

// challenge makes a step that must be answered by a challenge.
func (h *harness) challenge(e *sasl.Exchange, in string) string {
	h.t.Helper()
	challenge, done, _, err := e.Step(h.t.Context(), []byte(in))
	if done || err != nil {
		h.t.Fatalf("%q is answered by %v, %v; want a challenge\n%+v", in, done, err, h.log.All())
	}
	return string(challenge)
}

func TestPeerSCRAM(t *testing.T) {
	h := newHarness(t, database+"mech_list: plain login scram-sha-256\n", nil)
	for _, ssf := range []int{0, 256} {
		e, mechs, err := h.Begin(t.Context(), sasl.Login{SSF: ssf})
		if err != nil || mechs != "PLAIN LOGIN SCRAM-SHA-256" {
			t.Fatalf("mechanisms %q, %v", mechs, err)
		}
		e.Close()
	}
	if user, err := h.scram("alice", password); user != "alice" {
		t.Errorf("got user %q, %v", user, err)
	}
	if _, err := h.scram("alice", "wrong"); code(err) != -21357 {
		t.Errorf("with the wrong password: %v", err)
	}
	if _, _, err := h.logIn("SCRAM-SHA-256\x00n,,n=mallory,r=abc"); code(err) != -21364 {
		t.Errorf("with an unknown user: %v", err)
	}
}
