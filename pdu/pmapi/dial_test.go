package pmapi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/pdu"
)

func TestEndpoints(t *testing.T) {
	env := map[string]string{}
	for _, tt := range []struct {
		spec, env string
		want      []endpoint
	}{
		{"h", "", []endpoint{{network: "tcp", address: "h:44321", host: "h"}}},
		{"h", "PMCD_PORT=1,2", []endpoint{{"tcp", "h:1", "", "h"}, {"tcp", "h:2", "", "h"}}},
		{"[::1]:7", "PMCD_PORT=1", []endpoint{{"tcp", "[::1]:7", "", "::1"}}},
		{"h@p", "", []endpoint{{"tcp", "p:44322", "h 44321\n", "h"}}},
		{"h:1,2@p:3", "PMPROXY_PORT=9 PMPROXY_HOST=x", []endpoint{{"tcp", "p:3", "h 1\n", "h"}, {"tcp", "p:3", "h 2\n", "h"}}},
		{"h", "PMPROXY_PORT=9 PMPROXY_HOST=x", []endpoint{{"tcp", "x:9", "h 44321\n", "h"}}},
		{"unix:", "PMPROXY_HOST=x", []endpoint{{"unix", "/run/pcp/pmcd.socket", "", "localhost"}}},
		{"unix:", "PCP_RUN_DIR=/r", []endpoint{{"unix", "/r/pmcd.socket", "", "localhost"}}},
		{"unix:", "PMCD_SOCKET=/s PCP_RUN_DIR=/r", []endpoint{{"unix", "/s", "", "localhost"}}},
		{"local:/a", "PMCD_PORT=5", []endpoint{{"unix", "/a", "", "localhost"}, {"tcp", "localhost:5", "", "localhost"}}},
	} {
		clear(env)
		for _, e := range strings.Fields(tt.env) {
			k, v, _ := strings.Cut(e, "=")
			env[k] = v
		}
		s, err := ParseSpec(tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		getenv := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
		got, err := s.endpoints(getenv)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s, %s: %q, %v", tt.spec, tt.env, got, err)
		}
		for _, port := range []string{"x", "1,", "0", "70000"} {
			env["PMCD_PORT"] = port
			if _, err := s.endpoints(getenv); err == nil {
				t.Errorf("PMCD_PORT=%s is no error", port)
			}
		}
	}
}

func TestSecureEnvironment(t *testing.T) {
	for value, want := range map[string]Secure{"": SecureEnforce, "1": SecureEnforce, "enforce": SecureEnforce, "relaxed": SecureRelaxed, "yes": SecureDefault, "0": SecureDefault} {
		getenv := func(string) (string, bool) { return value, true }
		if got := (Spec{}).secure(getenv); got != want {
			t.Errorf("PCP_SECURE_SOCKETS=%s: %v", value, got)
		}
		if got := (Spec{Secure: SecureRelaxed}).secure(getenv); got != SecureRelaxed {
			t.Errorf("PCP_SECURE_SOCKETS=%s wins over the specification", value)
		}
	}
	if got := (Spec{}).secure(func(string) (string, bool) { return "", false }); got != SecureDefault {
		t.Errorf("without PCP_SECURE_SOCKETS: %v", got)
	}
}

// The first port and the Unix socket that answer are used.
func TestDialFallback(t *testing.T) {
	f := startFake(t)
	_, port, _ := net.SplitHostPort(f.host())
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, noPort, _ := net.SplitHostPort(closed.Addr().String())
	closed.Close()
	ctx := testContext(t)
	c, err := Dial(ctx, "127.0.0.1:"+noPort+","+port, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	t.Setenv("PMCD_PORT", port)
	t.Setenv("PMCD_HOST", "local:"+filepath.Join(t.TempDir(), "none"))
	toIPv4 := func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, strings.Replace(address, "localhost", "127.0.0.1", 1))
	}
	if c, err = Dial(ctx, "", Options{DialContext: toIPv4}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	_, err = Dial(ctx, "unix:"+filepath.Join(t.TempDir(), "none"), Options{})
	var lost *ConnError
	if !errors.As(err, &lost) || !lost.Spec.Unix {
		t.Errorf("no such socket: %v", err)
	}
}

// An attempt that is interrupted has the errors of the ports before, too.
func TestDialInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	tried := 0
	_, err := Dial(ctx, "h:1,2", Options{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		if tried++; tried == 1 {
			return nil, syscall.ECONNREFUSED
		}
		cancel()
		return nil, errors.New("interrupted")
	}})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, syscall.ECONNREFUSED) || !strings.Contains(err.Error(), "h:2") {
		t.Errorf("%v", err)
	}
}

// What a pmcd can send in place of a handshake.
func TestDialRefused(t *testing.T) {
	for _, tt := range []struct {
		name   string
		accept func(*session) bool
		want   error
	}{
		{"closed", func(s *session) bool { return false }, io.EOF},
		{"half a greeting", func(s *session) bool { s.nc.Write([]byte{0, 0, 0, 20, 0, 0}); return false }, io.ErrUnexpectedEOF},
		{"no PDU", func(s *session) bool { s.nc.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")); return false }, pdu.ErrTooLong},
		{"no greeting", func(s *session) bool { s.send(&pdu.Error{}); return false }, ErrReply},
		{"another version", func(s *session) bool { s.send(&pdu.Error{Greeting: true, Info: 3 << 24}); return false }, ErrReply},
		{"not allowed", func(s *session) bool {
			s.send(&pdu.Error{Greeting: true, Code: pdu.GreetingCode(pdu.ErrnoPermission)})
			return false
		}, pdu.ErrnoPermission},
		{"CREDS refused", func(s *session) bool {
			s.greet()
			s.recv()
			s.send(&pdu.Error{Code: pdu.ErrnoPermission})
			return true
		}, pdu.ErrnoPermission},
		{"another reply", func(s *session) bool { s.greet(); s.recv(); s.send(&pdu.Text{}); return true }, ErrReply},
		{"state changes without end", func(s *session) bool {
			s.greet()
			for range 20 {
				s.send(&pdu.Error{Code: 1})
			}
			return s.recv() != nil
		}, ErrReply},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := startFake(t)
			f.accept = tt.accept
			c, err := Dial(testContext(t), f.host(), Options{})
			var lost *ConnError
			if c != nil || !errors.As(err, &lost) || !errors.Is(err, tt.want) {
				t.Errorf("%v, want %v", err, tt.want)
			}
		})
	}
}

// What the specification asks for and pmcd does not have.
func TestDialFeatures(t *testing.T) {
	f := startFake(t)
	f.features = 0
	for _, attrs := range []string{"?secure=enforce", "?container=c", "?user=u", "?method=plain"} {
		if _, err := Dial(testContext(t), f.host()+attrs, Options{}); !errors.Is(err, pdu.ErrnoEOPNOTSUPP) {
			t.Errorf("%s: %v", attrs, err)
		}
	}
	c, err := Dial(testContext(t), f.host()+"?secure=relaxed", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Features() != 0 || c.Spec().Secure != SecureRelaxed {
		t.Errorf("features %v of %v", c.Features(), c.Spec())
	}
}

func TestContainer(t *testing.T) {
	f := startFake(t)
	var got []pdu.Message
	f.accept = func(s *session) bool {
		s.greet()
		got = append(got, s.recv(), s.recv())
		return true
	}
	c, err := Dial(testContext(t), f.host()+"?container=c1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	want := []pdu.Message{
		&pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(pdu.FeatureContainer)}},
		&pdu.Attr{Code: pdu.AttrContainer, Value: []byte("c1")},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A proxy gets the host and the port before pmcd gets anything.
func TestProxy(t *testing.T) {
	f := startFake(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	lines := make(chan string, 10)
	answer := proxyServer
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			r := bufio.NewReader(nc)
			line, _ := r.ReadString('\n')
			lines <- line
			io.WriteString(nc, answer)
			if line, err = r.ReadString('\n'); err == nil {
				lines <- line
				up, err := net.Dial("tcp", f.host())
				if err != nil {
					t.Error(err)
					return
				}
				copied := make(chan struct{})
				go func() { io.Copy(nc, up); nc.Close(); close(copied) }()
				io.Copy(up, r)
				up.Close()
				<-copied
			}
			nc.Close()
		}
	}()
	c, err := Dial(testContext(t), "somehost:7@"+ln.Addr().String(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Lookup(testContext(t), "fake.count"); err != nil {
		t.Error(err)
	}
	c.Close()
	if a, b := <-lines, <-lines; a != proxyClient || b != "somehost 7\n" {
		t.Errorf("the proxy got %q and %q", a, b)
	}
	answer = "SSH-2.0-OpenSSH_9.2\r\n"
	_, err = Dial(testContext(t), "somehost:7@"+ln.Addr().String(), Options{})
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("not a pmproxy: it sent %q", answer[:len(proxyServer)])) {
		t.Errorf("no proxy: %v", err)
	}
	ln.Close()
	<-done
}
