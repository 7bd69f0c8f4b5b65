package root

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/internal/pmdaroot"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// A testServer is a server for a composed host.
type testServer struct {
	*server
	t   *testing.T
	log testutil.Log
}

// socketPath returns a path that is short enough for a socket, in a directory that does
// not exist.
func socketPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(testutil.SharedDir(t), "pmcd", "root.socket")
}

func newServer(t *testing.T, path string, files map[string]string) *testServer {
	t.Helper()
	s := &testServer{t: t}
	o := options(pmdatest.Tree(t, files))
	o.Log = slog.New(serve.NewHandler(&s.log, "pmda", slog.LevelInfo)).With("agent", "root")
	s.server = startServer(newTable(o), path, o.Log)
	t.Cleanup(func() { s.close() })
	return s
}

// dial connects and reads the greeting.
func (s *testServer) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("unix", s.path)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(testutil.Hangs))
	b := make([]byte, infoLen)
	if _, err := io.ReadFull(conn, b); err != nil || !bytes.Equal(b, appendInfo(nil)) {
		s.t.Fatalf("greeting %x, %v", b, err)
	}
	return conn
}

// ask returns the reply to a request.
func (s *testServer) ask(conn net.Conn, request []byte) []byte {
	s.t.Helper()
	if _, err := conn.Write(request); err != nil {
		s.t.Fatal(err)
	}
	b := make([]byte, headerLen)
	if _, err := io.ReadFull(conn, b); err != nil {
		s.t.Fatal(err)
	}
	b = append(b, make([]byte, binary.NativeEndian.Uint32(b[4:])-headerLen)...)
	if _, err := io.ReadFull(conn, b[headerLen:]); err != nil {
		s.t.Fatal(err)
	}
	return b
}

// Requests are answered as pmdaroot answers them, except for those to start and end
// agents.
func TestServer(t *testing.T) {
	testutil.CheckLeaks(t)
	files := composed()
	delete(files, "docker/containers/"+idC+"/config.v2.json") // is damaged
	files["proc/100/root/etc/hostname"] = "byfile\n"
	files["proc/101/cgroup"] = "0::/docker/" + idA + "\n"
	files["proc/101/environ"] = "HOSTNAME=other\x00"
	files["proc/600/cgroup"] = "0::/system.slice/x.service\n"
	files["proc/600/ns/uts"] = "-> uts:[600]"
	files["proc/600/environ"] = "HOSTNAME=secret\x00"
	s := newServer(t, socketPath(t), files)
	if fi, err := os.Stat(filepath.Dir(s.path)); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("directory: %v, %v", fi.Mode(), err)
	}
	conn := s.dial()
	none := func(typ int32) []byte { return appendReply(nil, typ, int32(pdu.ErrnoNoContainer), 0, "") }
	for _, tt := range []struct {
		request, want []byte
	}{
		{about(msgProcessID, "web"), appendReply(nil, msgProcessID, 0, 100, "")},
		{about(msgProcessID, "web\x00"), appendReply(nil, msgProcessID, 0, 100, "")},
		{about(msgProcessID, idA[:4]), appendReply(nil, msgProcessID, 0, 100, "")},
		{about(msgProcessID, idA[:3]), none(msgProcessID)},
		{about(msgProcessID, "w"), none(msgProcessID)},
		{about(msgProcessID, "\x00"), none(msgProcessID)},
		{about(msgProcessID, "ended"), appendReply(nil, msgProcessID, 0, -1, "")},
		{about(msgProcessID, "off"), appendReply(nil, msgProcessID, 0, 0, "")},
		{about(msgCgroup, "web"), appendReply(nil, msgCgroup, 0, 100, "docker/"+idA)},
		{about(msgCgroup, "pod"), appendReply(nil, msgCgroup, 0, 200, "machine.slice/libpod-"+idD+".scope")},
		{about(msgCgroup, "ended"), appendReply(nil, msgCgroup, 0, -1, "docker/"+idB)},
		{about(msgCgroup, "off"), appendReply(nil, msgCgroup, 0, 0, "lxc/off")},
		{about(msgHostName, "web"), appendReply(nil, msgHostName, 0, 100, "webhost")},
		{about(msgHostName, "pod"), appendReply(nil, msgHostName, 0, 200, "podhost")},
		{about(msgHostName, "ended"), appendReply(nil, msgHostName, -2, -1, "")},
		{about(msgHostName, "nosuch"), none(msgHostName)},
		{words(msgHostName, 24, 0, 2, 100, 0), appendReply(nil, msgHostName, 0, 100, "webhost")},
		{words(msgHostName, 24, 0, 2, 101, 0), appendReply(nil, msgHostName, 0, 101, "other")},
		{words(msgHostName, 24, 0, 2, 600, 0), appendReply(nil, msgHostName, int32(pdu.ErrnoNoContainer), 600, "")},
		{words(msgHostName, 24, 0, 2, -1, 0), appendReply(nil, msgHostName, int32(pdu.ErrnoNoContainer), -1, "")},
		{startRequest, appendDenied(nil, request{typ: msgStart})},
		{words(msgStop, 32, 0, 2, -1, 0, 0, 0), appendDenied(nil, request{typ: msgStop, pid: -1})},
		{words(msgStop, 32, 0, 2, 100, 0, 0, 0), appendDenied(nil, request{typ: msgStop, pid: 100})},
		{words(msgStop, 32, 0, 2, 100, 0, 1, 0), appendDenied(nil, request{typ: msgStop, pid: 100})},
	} {
		if got := s.ask(conn, tt.request); !bytes.Equal(got, tt.want) {
			t.Errorf("request %q\n got %q\nwant %q", tt.request, got, tt.want)
		}
	}
	// The client of the other agents.
	c := pmdaroot.Client{Path: s.path}
	defer c.Close()
	pid, err := c.ProcessID("web")
	host, err2 := c.HostName("web")
	group, err3 := c.Cgroup("web")
	if pid != 100 || host != "webhost" || group != "docker/"+idA || errors.Join(err, err2, err3) != nil {
		t.Errorf("got %d, %q, %q, %v", pid, host, group, errors.Join(err, err2, err3))
	}
	c.Close()
	conn.Close()
	s.close()
	if _, err := os.Lstat(s.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket after the end: %v", err)
	}
	if s.log.String() != "" {
		t.Errorf("log: %s", s.log.String())
	}
}

// A client that stops in the middle of a request does not stop others, and one that sends
// nonsense is disconnected.
func TestHostileClients(t *testing.T) {
	s := newServer(t, socketPath(t), composed())
	for n := 1; n < 27; n++ {
		if _, err := s.dial().Write(about(msgCgroup, "web")[:n]); err != nil {
			t.Fatal(err)
		}
	}
	want := appendReply(nil, msgProcessID, 0, 100, "")
	if got := s.ask(s.dial(), about(msgProcessID, "web")); !bytes.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	for _, bad := range [][]byte{words(msgInfo, 24, 0, 2, 7, 0), words(-1, -1, -1, -1), []byte(strings.Repeat("GET / HTTP/1.1\r\n", 1000))} {
		conn := s.dial()
		conn.Write(bad) // fails if it is closed meanwhile
		if b, err := io.ReadAll(conn); len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after %.20q: %q, %v", bad, b, err)
		}
	}
	testutil.Eventually(t, "three lines in the log", func() bool { return strings.Count(s.log.String(), "bad protocol exchange") == 3 })
	// A client that does not read does not stop others, either.
	deaf := s.dial()
	deaf.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	for {
		if _, err := deaf.Write(bytes.Repeat(about(msgCgroup, "web"), 1000)); err != nil {
			break
		}
	}
	if got := s.ask(s.dial(), about(msgProcessID, "web")); !bytes.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Clients have a limit; when one disconnects, another can connect.
func TestManyClients(t *testing.T) {
	s := newServer(t, socketPath(t), composed())
	var conns []net.Conn
	for range maxClients {
		conns = append(conns, s.dial())
	}
	over, err := net.Dial("unix", s.path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(over); len(b) > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("one client more got %q, %v", b, err)
	}
	over.Close()
	conns[0].Close()
	testutil.Eventually(t, "room for a client", func() bool {
		conn, err := net.Dial("unix", s.path)
		if err != nil {
			return false
		}
		defer conn.Close()
		n, _ := conn.Read(make([]byte, infoLen))
		return n == infoLen
	})
}

// Where another pmdaroot answers, the server does not listen. It does when that one has
// ended, and when its own socket is removed.
func TestSocketInUse(t *testing.T) {
	path := socketPath(t)
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	s := newServer(t, path, composed())
	s.check()
	if text := s.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "another process, probably pmdaroot, listens at the socket "+path) {
		t.Errorf("log: %s", text)
	}
	if s.listener != nil {
		t.Fatal("it listens")
	}
	if conn, err := net.Dial("unix", path); err != nil {
		t.Errorf("the other one does not listen any more: %v", err)
	} else {
		conn.Close()
	}
	l.Close() // its socket remains
	s.check()
	s.dial()
	if text := s.log.String(); !strings.Contains(text, "agents can ask this agent about containers at "+path) {
		t.Errorf("log: %s", text)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s.check()
	s.dial()
	// One that replaces the socket keeps it, as pmdaroot does.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if l, err = net.Listen("unix", path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s.check()
	s.close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of the other one: %v", err)
	}
}

// What is in the place of the socket and is none is not removed.
func TestNoSocket(t *testing.T) {
	path := socketPath(t)
	if err := os.MkdirAll(path, 0o700); err != nil {
		t.Fatal(err)
	}
	s := newServer(t, path, composed())
	if text := s.log.String(); !strings.Contains(text, path+" is not a socket") {
		t.Errorf("log: %s", text)
	}
	below := filepath.Join(socketPath(t), "a", "b")
	if err := os.WriteFile(filepath.Dir(filepath.Dir(filepath.Dir(below))), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if s = newServer(t, below, composed()); s.listener != nil || s.log.String() == "" {
		t.Errorf("below a file: log %q", s.log.String())
	}
}

// Only processes of root and of PCP's user are served, whatever the mode of the socket.
func TestPeers(t *testing.T) {
	if path := os.Getenv("PMCD_TEST_PEER"); path != "" {
		conn, err := net.Dial("unix", path)
		if err != nil {
			fmt.Println("error:", err)
			return
		}
		n, _ := io.ReadFull(conn, make([]byte, infoLen))
		fmt.Println("bytes:", n)
		return
	}
	testutil.NeedRoot(t)
	path := socketPath(t)
	t.Setenv("PCP_USER", "nobody")
	nobody := pcpUsers()[1]
	s := newServer(t, path, composed())
	for _, path := range []string{filepath.Dir(path), path} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for uid, want := range map[uint32]string{0: "bytes: 24", nobody: "bytes: 24", 65533: "bytes: 0"} {
		for range 2 {
			cmd := exec.Command("/proc/self/exe", "-test.run=^TestPeers$")
			cmd.Env = append(os.Environ(), "PMCD_TEST_PEER="+path)
			cmd.Dir = "/"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
			out, err := cmd.CombinedOutput()
			if testutil.Forbidden(err) {
				testutil.Missing(t, err)
			}
			if got, _, _ := strings.Cut(string(out), "\n"); got != want || err != nil {
				t.Errorf("user %d: %s, %v", uid, out, err)
			}
		}
	}
	if text := s.log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "of user 65533 may not connect") {
		t.Errorf("log: %s", text)
	}
}

// Root follows no link to the directory, or to one above it, that another user can have made.
func TestLinkedDirectory(t *testing.T) {
	for _, name := range []string{"root.socket", "pmcd/root.socket", "new/pmcd/root.socket"} {
		if l, err := listen(filepath.Join(testutil.LinkedDir(t), name)); err == nil {
			l.Close()
			t.Errorf("it listens at %s", name)
		}
	}
}
