package main

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// Inherited sockets are served, in place of those that options name.
func TestInheritedSockets(t *testing.T) {
	tcp, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	unixPath := filepath.Join(t.TempDir(), "inherited")
	unix, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: unixPath})
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	file := func(v interface{ File() (*os.File, error) }) *os.File {
		f, err := v.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()

	s := pmcdtest.NewService(t, "-f")
	s.Cmd.ExtraFiles = []*os.File{file(tcp), file(udp), null, file(unix)}
	s.Cmd.Env = append(s.Cmd.Env, "LISTEN_FDS=5", "LISTEN_FDNAMES=web:udp:null:local:more")
	s.Start()
	s.Greets(unixPath)
	conn, err := net.Dial("tcp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(testutil.Hangs))
	if n, err := conn.Read(make([]byte, 20)); n == 0 {
		t.Errorf("TCP: %v", err)
	}
	names, fds := s.Inherited()
	for _, name := range []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		if slices.Contains(names, name) {
			t.Errorf("the agent has %s", name)
		}
	}
	for _, fd := range fds {
		if n, err := strconv.Atoi(fd); err != nil || n > 2 && n < 10 { // a shell keeps its script at 10
			t.Errorf("the agent has descriptors %v", fds)
			break
		}
	}
	s.OpenGate()
	peer.Until(peer.Hangs, func() bool { return strings.Contains(s.Read("pmcd.log"), "pmcd request port(s):") })
	log := s.Read("pmcd.log")
	_, port, _ := net.SplitHostPort(tcp.Addr().String())
	for _, want := range []string{
		`\n  ok +\d+ +` + port + ` inet   INADDR_LOOPBACK \(inherited: web\)\n`,
		`\n  err +-1 +\? \? +udp \(the inherited socket "udp": .*\)\n`,
		`\n  ok +\d+ +unix   ` + regexp.QuoteMeta(unixPath) + ` \(inherited: local\)\n`,
		`LISTEN_FDS=5: descriptor 5 is not a socket`,
		`LISTEN_FDS=5: descriptor 7`,
	} {
		if !regexp.MustCompile(want).MatchString(log) {
			t.Errorf("the log has no %q", want)
		}
	}
	r, err := ctl.Ask(t.Context(), ctl.Path(s.Path("sock")))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"LISTEN_FDS=5: descriptor 5 is not a socket", "LISTEN_FDS=5: descriptor 7",
		"the socket " + s.Path("sock") + " of -s or PMCD_SOCKET is not served: the service manager has opened " + unixPath, "-i, -p without effect: the service manager has opened the ports 127.0.0.1:",
		`no client is accepted at the inherited socket "udp": `}; !slices.EqualFunc(r.Problems, want, strings.HasPrefix) {
		t.Errorf("problems %q, want %q", r.Problems, want)
	}
	if n := strings.Count(log, "\n  ok "); n != 2 {
		t.Errorf("%d sockets are served", n)
	}
	s.Stop()
	if _, err := os.Lstat(unixPath); err != nil {
		t.Errorf("the socket of the manager has gone: %v", err)
	}
	if _, err := os.Lstat(s.Path("sock")); err == nil {
		t.Error("the socket of the options is there")
	}
}

// Sockets for another process are not used.
func TestInheritedSocketsOfAnother(t *testing.T) {
	s := pmcdtest.NewService(t, "-f")
	s.Cmd.Env = append(s.Cmd.Env, "LISTEN_FDS=3", "LISTEN_PID=1")
	s.Start()
	s.Greets(s.Path("sock"))
	s.OpenGate()
}
