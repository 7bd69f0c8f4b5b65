package daemon

import (
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu/pdutest"
)

// hasPassrights reports whether a Unix socket can refuse descriptors: since Linux 6.16, and not
// for a program that runs in qemu-user 7.2.
var hasPassrights = sync.OnceValue(func() bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 0) == nil
})

// withRights has clients at the Unix socket pass descriptors, as all may before
// Linux 6.16.
func withRights(t *testing.T) func(*Config) {
	return func(c *Config) {
		c.Listeners.Control(func(addr net.Addr, fd uintptr) {
			if addr.Network() != "unix" {
				return
			}
			if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSRIGHTS, 1); err != nil && err != unix.ENOPROTOOPT {
				t.Fatal(err)
			}
		})
	}
}

// A Unix socket that a service manager gives may have been connected to before
// pmcd could say that it takes no descriptors.
func TestPassedBeforeAccept(t *testing.T) {
	path := t.TempDir() + "/sock"
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := ln.(*net.UnixListener).SyscallConn()
	raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
	if err != nil {
		t.Fatal(err)
	}
	f, err := ln.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	var early [2]net.Conn
	for i := range early {
		if early[i], err = net.Dial("unix", path); err != nil {
			t.Fatal(err)
		}
		defer early[i].Close()
	}
	r := newHarness(t, func(c *Config) {
		c.Listeners.Close()
		if c.Listeners, err = Listen(nil, nil, "", f); err != nil {
			t.Fatal(err)
		}
	}, nil)
	ln.Close()
	var cs [2]*client
	for i, conn := range early {
		conn.SetDeadline(time.Now().Add(testutil.Hangs))
		cs[i] = &client{t, pdutest.New(conn)}
		cs[i].recv()
		cs[i].send(hello)
		cs[i].ask() // SO_PASSCRED is not taken for descriptors
	}
	if err := sendDescriptor(early[0]); err != nil {
		t.Fatal(err)
	}
	cs[0].closed()
	cs[1].ask()
	r.awaitLogged(t, "sends file descriptors")
}

// sendDescriptor sends a byte with a descriptor.
func sendDescriptor(c net.Conn) error {
	raw, err := c.(syscall.Conn).SyscallConn()
	if err != nil {
		return err
	}
	raw.Control(func(fd uintptr) { err = unix.Sendmsg(int(fd), []byte("x"), unix.UnixRights(0), nil, 0) })
	return err
}

// No client can leave descriptors with pmcd, for it to close. Where the system does not refuse
// them, pmcd disconnects the client.
func TestNoDescriptorsFromClients(t *testing.T) {
	r := newHarness(t, nil, nil)
	c := r.dialTo("unix", r.unix, 0)
	switch err := sendDescriptor(c.Conn); {
	case hasPassrights():
		if err != unix.EPERM {
			t.Errorf("sent a descriptor: %v", err)
		}
	case err != nil:
		t.Error(err)
	default:
		c.closed()
	}
}
