package pmapi

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/xdg-go/scram"

	"github.com/gopcp/pmcd/pdu"
)

const badAuth = pdu.ErrnoNYI - 13

// saslServer accepts the user "alice" with the password "secret", as pmcd does by SASL.
func saslServer(t *testing.T, offer string) func(*session) bool {
	known, err := scram.SHA256.NewClient("alice", "secret", "")
	if err != nil {
		t.Fatal(err)
	}
	stored, err := known.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "salt", Iters: 4096})
	if err != nil {
		t.Fatal(err)
	}
	server, err := scram.SHA256.NewServer(func(user string) (scram.StoredCredentials, error) {
		if user != "alice" {
			return scram.StoredCredentials{}, errors.New("unknown user")
		}
		return stored, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(s *session) bool {
		data := func(text string) { s.send(&pdu.Attr{Value: []byte(text)}) }
		recv := func() string {
			m, ok := s.recv().(*pdu.Attr)
			if !ok || m.Code != pdu.AttrNone {
				return "no SASL"
			}
			return string(m.Value)
		}
		check := func(ok bool) bool {
			if !ok {
				s.send(&pdu.Error{Code: badAuth})
			}
			return true // pmcd serves on
		}
		s.greet()
		m, ok := s.recv().(*pdu.Creds)
		if !ok {
			return false
		}
		if m.Creds[0].Flags()&(pdu.FeatureAuth|pdu.FeatureCredsReqd) == 0 {
			return true
		}
		data(offer)
		method, first, ok := strings.Cut(recv(), "\x00")
		switch {
		case !ok:
			return false
		case method == "PLAIN":
			return check(first == "alice\x00alice\x00secret")
		case method == "LOGIN":
			data("Username:")
			user := recv()
			data("Password:")
			return check(user+recv() == "alicesecret")
		}
		conv := server.NewConversation()
		for {
			challenge, err := conv.Step(first)
			if err != nil {
				return check(false)
			}
			data(challenge)
			if first = recv(); conv.Done() {
				return check(conv.Valid() && first == "")
			}
		}
	}
}

func TestLogin(t *testing.T) {
	const all = "PLAIN LOGIN SCRAM-SHA-256"
	for _, tt := range []struct {
		attrs, offer string
		want         error
	}{
		{"?user=alice&pass=secret", all, nil},
		{"?user=alice&pass=wrong", all, badAuth},
		{"?user=bob&pass=secret", all, badAuth},
		{"?user=alice&pass=secret&method=scram-sha-256", "PLAIN", nil},
		{"?user=alice&pass=secret&method=plain", all, nil},
		{"?user=alice&pass=wrong&method=plain", all, badAuth},
		{"?user=alice&pass=secret&method=login", all, nil},
		{"?user=alice&pass=wrong&method=login", all, badAuth},
		{"?user=alice&pass=secret", "PLAIN LOGIN", ErrNoMethod}, // others could read it
		{"?user=alice&pass=secret", "GSSAPI", ErrNoMethod},
		{"?user=alice&pass=secret&method=gssapi", all, ErrNoMethod},
	} {
		t.Run(tt.attrs+" "+tt.offer, func(t *testing.T) {
			f := startFake(t)
			f.accept = saslServer(t, tt.offer)
			c, err := Dial(testContext(t), f.host()+tt.attrs, Options{})
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if err == nil {
				if _, err := c.Lookup(testContext(t), "fake.count"); err != nil {
					t.Error(err)
				}
				if c.Spec().Password != "" || strings.Contains(c.Spec().String(), "secret") {
					t.Errorf("%v has the password", c.Spec())
				}
				c.Close()
			} else if strings.Contains(err.Error(), "secret") {
				t.Errorf("%v has the password", err)
			}
		})
	}
}

// A pmcd that demands a login gets one, or Dial fails.
func TestLoginRequired(t *testing.T) {
	f := startFake(t)
	f.features |= pdu.FeatureCredsReqd
	f.accept = saslServer(t, "SCRAM-SHA-256")
	if _, err := Dial(testContext(t), f.host(), Options{}); !errors.Is(err, pdu.ErrnoPermission) {
		t.Errorf("no user: %v", err)
	}
	c, err := Dial(testContext(t), f.host()+"?user=alice&pass=secret", Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// A false pmcd that does not know the password cannot pretend to, and cannot make the client
// compute for hours.
func TestFalseServer(t *testing.T) {
	for _, last := range []string{"v=AAAA", "e=other-error", "", "r=x,s=c2FsdA==,i=2000000000"} {
		f := startFake(t)
		f.accept = func(s *session) bool {
			s.greet()
			s.recv()
			s.send(&pdu.Attr{Value: []byte("SCRAM-SHA-256")})
			m, _ := s.recv().(*pdu.Attr)
			_, nonce, _ := bytes.Cut(m.Value, []byte("r="))
			if strings.HasPrefix(last, "r=x") {
				s.send(&pdu.Attr{Value: append([]byte("r="), append(nonce, last[2:]...)...)})
			} else {
				s.send(&pdu.Attr{Value: []byte("r=" + string(nonce) + "x,s=c2FsdA==,i=4096")})
				s.recv()
			}
			s.send(&pdu.Attr{Value: []byte(last)})
			return true
		}
		if _, err := Dial(testContext(t), f.host()+"?user=alice&pass=secret", Options{}); err == nil {
			t.Errorf("a server that sends %q at last is believed", last)
		}
	}
}
