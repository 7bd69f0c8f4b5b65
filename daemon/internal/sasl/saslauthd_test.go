package sasl_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/sasl"
	"github.com/gopcp/pmcd/internal/saslhelper"
)

// A saslauthd reads requests, and replies as reply says. Without a reply the connection stays
// open.
func (h *harness) saslauthd(reply func(user, password, service, realm string) string) {
	h.t.Helper()
	l, err := net.Listen("unix", h.dir+"/mux")
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				var f [4]string
				for i := range f {
					var n [2]byte
					io.ReadFull(c, n[:])
					b := make([]byte, binary.BigEndian.Uint16(n[:]))
					io.ReadFull(c, b)
					f[i] = string(b)
				}
				if r := reply(f[0], f[1], f[2], f[3]); r != "" {
					c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(r))), r...))
				} else {
					c.Read(make([]byte, 1)) // until the login has ended
				}
			}()
		}
	}()
}

const withSaslauthd = "mech_list: plain login\npwcheck_method: saslauthd\nsaslauthd_path: DIR/mux\n"

// A saslauthd that does not reply ends the login at its time limit, and delays no others.
func TestPeerSaslauthd(t *testing.T) {
	h := newHarness(t, withSaslauthd, func(opt *sasl.Options, _ *saslhelper.Options) {
		opt.Timeout, opt.MaxCalls = 3*time.Second, 1
	})
	asked := make(chan string, 10)
	if _, _, err := h.logIn(plain("alice", password)); code(err) != -21345 {
		t.Errorf("without saslauthd: %v", err)
	}
	h.saslauthd(func(user, pass, service, realm string) string {
		asked <- service + "|" + realm
		switch {
		case user == "slow":
			return ""
		case pass == password:
			return "OK"
		}
		return "NO"
	})
	h.wantLogin()
	if got := <-asked; got != "PCP Collector|" {
		t.Errorf("service and realm are %q", got)
	}
	if _, _, err := h.logIn(plain("alice", "wrong")); code(err) != -21357 {
		t.Errorf("wrong password: %v", err)
	}
	<-asked

	slow := make(chan error, 1)
	go func() {
		_, _, err := h.logInFrom(login("slow"), plain("slow", password))
		slow <- err
	}()
	<-asked
	h.wantLogin()
	if len(slow) > 0 {
		t.Error("the slow login ended before the other")
	}
	if err := <-slow; code(err) != -21345 || !strings.Contains(err.Error(), "no answer from the SASL library for 3s") {
		t.Errorf("the slow login: %v", err)
	}
	h.wantChildren(0)
	h.wantLogin()
	if len(h.procs) != 1 {
		t.Errorf("%d helpers were started, want 1", len(h.procs))
	}
}

// The end of the context ends the login and its process.
func TestPeerCancel(t *testing.T) {
	h := newHarness(t, withSaslauthd, nil)
	asked := make(chan bool, 1)
	h.saslauthd(func(_, _, _, _ string) string { asked <- true; return "" })
	ctx, cancel := context.WithCancelCause(t.Context())
	e := h.begin(login("a"))
	why := errors.New("the client has gone")
	go func() {
		<-asked
		cancel(why)
	}()
	if _, _, _, err := e.Step(ctx, []byte(plain("alice", password))); !errors.Is(err, why) {
		t.Errorf("got %v", err)
	}
	h.wantChildren(0)
	if n := h.Logins(); n != 0 {
		t.Errorf("%d logins are under way", n)
	}
}
