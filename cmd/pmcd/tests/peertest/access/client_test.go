package access

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// Clients as reference texts on pmcd's rules name them, by letter.
var who = map[string]string{
	"A": "127.0.0.1", "B": "127.0.0.2", "C": "192.0.2.2", "D": "::1", "E": "fd00::2", "U": "unix",
	"T": "127.0.0.1", "R": "unix root", "P": "unix pcp", "N": "unix nobody",
}

// A client is a connection to pmcd.
type client struct {
	t               *testing.T
	*pdutest.Client // nil if the connection was reset before it was there
}

func (c *client) close() {
	if c.Client != nil {
		c.Close()
	}
}

// dial connects from the address of a client to the same address, or to the
// Unix socket as a user.
func dial(t *testing.T, d *peer.Daemon, letter string) *client {
	t.Helper()
	var c *pdutest.Client
	var err error
	name, as, _ := strings.Cut(who[letter], " ")
	switch {
	case as != "":
		c, err = dialAs(d.Sock, as)
	case name == "unix":
		c, err = pdutest.Dial("unix", d.Sock, "")
	default:
		c, err = pdutest.Dial("tcp", net.JoinHostPort(name, strconv.Itoa(d.Port)), name)
	}
	if errors.Is(err, syscall.ECONNRESET) {
		return &client{t: t}
	}
	if err != nil {
		t.Fatalf("%s: %v", letter, err)
	}
	t.Cleanup(func() { c.Close() })
	c.From = 7
	return &client{t, c}
}

// dialAs connects to a Unix socket with the uid and gid of a user, which the
// kernel notes at that moment.
func dialAs(path, name string) (*pdutest.Client, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, _ := strconv.Atoi(u.Uid)
	gid, _ := strconv.Atoi(u.Gid)
	fd := -1
	done := make(chan error)
	go func() {
		// System calls of this thread alone, which ends with the goroutine as
		// it is never unlocked.
		runtime.LockOSThread()
		done <- func() error {
			if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid)); e != 0 {
				return e
			}
			if _, _, e := syscall.RawSyscall(syscall.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid)); e != 0 {
				return e
			}
			var err error
			if fd, err = syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0); err != nil {
				return err
			}
			return syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
		}()
	}()
	err = <-done
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	if err != nil {
		return nil, err
	}
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return pdutest.New(conn), conn.SetDeadline(time.Now().Add(pdutest.Timeout))
}

// code is the Errno of an ERROR.
func code(m pdu.Message) (pdu.Errno, bool) {
	e, ok := m.(*pdu.Error)
	if !ok {
		return 0, false
	}
	return e.Code, true
}

// What a client can get. A "!" in front of what it may do is an error in answer
// to CREDS.
const (
	refused = "R" // by rules, in the greeting
	limit   = "L" // because there are too many, in the greeting
	reset   = "?" // its connection was reset: a refusal that was lost
)

var seqnum = pdu.NewPMID(2, 0, 24)

// connect says what the client gets from the greeting on.
func (c *client) connect() string {
	c.t.Helper()
	if c.Client == nil {
		return reset
	}
	m, err := c.Next()
	switch e, _ := code(m); {
	case errors.Is(err, syscall.ECONNRESET):
		return reset
	case err != nil:
		c.t.Fatal(err)
	case e == pdu.GreetingCode(pdu.ErrnoPermission):
		return refused
	case e == pdu.GreetingCode(pdu.ErrnoConnLimit):
		return limit
	case e != 0:
		return e.Error()
	}
	return c.rights(true)
}

// hello are CREDS; strange asks for a feature that no client may have, so that
// pmcd answers it whatever the rights of the client are.
var (
	hello   = pdutest.Creds(0)
	strange = pdutest.Creds(pdu.FeatureCompress)
)

// rights asks for a descriptor and stores a value, after CREDS if it is to
// greet, and says what came of it: "fs", "f-", "!--" and so on.
func (c *client) rights(greet bool) string {
	c.t.Helper()
	var s string
	if greet {
		s = c.answer(hello)
	}
	s += c.answer(&pdu.DescReq{PMID: seqnum})
	return s + c.answer(&pdu.Result{Sets: []pdu.ValueSet{{
		PMID: seqnum, Format: pdu.FormatInsitu, Values: []pdu.Value{{Inst: -1, Word: 1}},
	}}})
}

// answer sends one request and says what came of it.
func (c *client) answer(m pdu.Message) string {
	c.t.Helper()
	if err := c.Send(m, strange); err != nil {
		return err.Error()
	}
	what := "-"
	if m == pdu.Message(hello) {
		what = ""
	}
	for {
		reply, err := c.Next()
		if err != nil {
			return err.Error()
		}
		e, isError := code(reply)
		switch {
		case !isError:
			what = "f"
		case e == pdu.ErrnoEOPNOTSUPP:
			return what
		case e == 0:
			what = "s"
		case e != pdu.ErrnoPermission:
			return fmt.Sprintf("(%s)", e.Name())
		case m == pdu.Message(hello):
			what = "!"
		}
	}
}

// end returns the error with which a reload ends the connection, or the kind
// of end without one.
func (c *client) end() string {
	m, err := c.Next()
	if err == nil {
		if e, ok := code(m); ok {
			return e.Name()
		}
		return fmt.Sprint(m.Type())
	}
	return err.Error()
}
