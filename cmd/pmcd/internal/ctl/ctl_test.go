package ctl

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

func TestPath(t *testing.T) {
	for socket, want := range map[string]string{
		"/run/pcp/pmcd.socket": "/run/pcp/pmcd.ctl",
		"/tmp/sock":            "/tmp/sock.ctl",
		"x.socket.socket":      "x.socket.ctl",
	} {
		if got := Path(socket); got != want {
			t.Errorf("Path(%q) = %q, want %q", socket, got, want)
		}
	}
}

func listen(t *testing.T, path string) *Server {
	t.Helper()
	s, err := Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func ask(t *testing.T, path string) (*Report, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Hangs)
	defer cancel()
	return Ask(ctx, path)
}

func report(build string) func() *Report {
	return func() *Report { return &Report{Build: build} }
}

func TestAsk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ctl")
	if _, err := ask(t, path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no socket: got %v", err)
	}
	uid := int64(7)
	now := time.Now().UTC().Round(0)
	want := &Report{
		Version: "7.2.1", Build: "b", PID: 3, UID: 4, Now: now, Started: now, Config: "/c", Namespace: "/n",
		Listening: []string{"unix:/x"},
		Agents: []Agent{{Name: "a", Domain: 5, Kind: "pipe", State: Ready, Since: now, PID: 6, Restarts: 7, Failures: 8, NextStart: now,
			LastError: "e", ErrorAt: now, StderrTail: []string{"w"}, Requests: 9, Errors: 10, Abandoned: 11, MeanUS: 12, MaxUS: 13}, {}},
		Clients: []Client{{Number: 1, Address: "::1", Since: now, UID: &uid, Whoami: "w", Container: "c", Denied: "store"}, {}},
		Reloads: Reloads{Count: 2, Last: now, Error: "e"},
	}
	s := listen(t, path)
	s.Serve(func() *Report { return want })
	if fi, err := os.Lstat(path); err != nil || fi.Mode().Perm()&0o22 != 0 { // a user that may not write may not connect
		t.Errorf("got %v, %v", fi.Mode(), err)
	}
	for range 20 {
		if got, err := ask(t, path); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left behind")
	}
}

// A socket that a pmcd serves is never taken from it; one that is left behind
// is replaced; nothing else is touched.
func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.ctl")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	first := listen(t, path)
	first.Serve(report("first"))
	for range 3 {
		if s, err := Listen(path); err == nil || !strings.Contains(err.Error(), "in use by another pmcd") {
			t.Fatalf("got %v, %v", s, err)
		}
	}
	if r, err := ask(t, path); err != nil || r.Build != "first" {
		t.Errorf("got %+v, %v", r, err)
	}

	// What is there by the end is the socket of another server.
	if err := os.Rename(path, path+".moved"); err != nil {
		t.Fatal(err)
	}
	second := listen(t, path)
	second.Serve(report("second"))
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if r, err := ask(t, path); err != nil || r.Build != "second" {
		t.Errorf("got %+v, %v", r, err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}

	for name, make := range map[string]func(string) error{
		"file":      func(p string) error { return os.WriteFile(p, nil, 0o666) },
		"directory": func(p string) error { return os.Mkdir(p, 0o777) },
		"link":      func(p string) error { return os.Symlink(path+".moved", p) },
	} {
		path := filepath.Join(dir, name)
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if s, err := Listen(path); err == nil || !strings.Contains(err.Error(), "is not a socket") {
			t.Errorf("%s: got %v, %v", name, s, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// If many servers find a socket left behind, one replaces it, and keeps its own.
func TestListenAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ctl")
	for range 20 {
		dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
		if err != nil {
			t.Fatal(err)
		}
		dead.SetUnlinkOnClose(false)
		dead.Close()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var got []*Server
		for range 8 {
			wg.Go(func() {
				if s, err := Listen(path); err == nil {
					s.Serve(report("x"))
					mu.Lock()
					defer mu.Unlock()
					got = append(got, s)
				}
			})
		}
		wg.Wait()
		if len(got) != 1 {
			t.Fatalf("%d servers listen", len(got))
		}
		if _, err := ask(t, path); err != nil {
			t.Error(err)
		}
		got[0].Close()
	}
	if left, _ := filepath.Glob(path + "*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Peers that do not read, or that talk, hold up neither others nor the end: Close ends
// writes that would go on for an hour.
func TestBadPeers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.ctl")
	s := listen(t, path)
	s.writeTime = time.Hour
	large := &Report{Build: strings.Repeat("x", 1<<20)} // more than a socket takes
	s.Serve(func() *Report { return large })
	for i := range maxPeers - 1 {
		conn, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if i%2 == 0 {
			conn.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
			conn.Write(make([]byte, 4<<20))
		}
	}
	for range 3 {
		if r, err := ask(t, path); err != nil || r.Build != large.Build {
			t.Fatalf("got %v", err)
		}
	}
	s.Close()
}

// What answers need not be a pmcd.
func TestBadServer(t *testing.T) {
	for _, tt := range []struct{ name, says, want string }{
		{"nothing", "", "no answer: only root and the user that pmcd runs as may ask"},
		{"half", `{"version":"7`, "this is no pmcd, or not of this version: unexpected end"},
		{"a greeting", "\x00\x00\x00\x14\x00\x00\x70\x00", "this is no pmcd, or not of this version: invalid character"},
		{"another document", `[1]`, "this is no pmcd, or not of this version: json: cannot unmarshal array"},
		{"two", `{}{}`, "this is no pmcd, or not of this version: invalid character"},
		{"too much", strings.Repeat(" ", 1001), "more than 1000 bytes"},
		{"deep", strings.Repeat("[", 999), "this is no pmcd"},
		{"all of it", strings.Repeat(" ", 998) + "{}", ""},
	} {
		_, err := read(strings.NewReader(tt.says), 1000)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}

	path := filepath.Join(t.TempDir(), "x.ctl")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Ask(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("one that says nothing: got %v", err)
	}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.(*net.UnixConn).CloseRead()
			io.WriteString(conn, "{")
			conn.Close()
		}
	}()
	if _, err := ask(t, path); err == nil || errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v", err)
	}
}
