package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// A namespace is a network namespace with one interface, whose peer is in that of this
// process. A client in it has an address that is not a loopback address.
type namespace struct {
	fd   int
	link string // the peer
	addr string // of the peer
}

// newNamespace needs root and ip(8).
func newNamespace() (*namespace, error) {
	// Addresses of 198.18.0.0/15 are for benchmarks (RFC 2544).
	pid := os.Getpid()
	net := fmt.Sprintf("198.18.%d.", pid>>6&0xff)
	first := pid & 0x3f << 2
	n := &namespace{fd: -1, link: fmt.Sprintf("bench%d", pid), addr: fmt.Sprint(net, first+1)}
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("unshare", err)
		}
		var err error
		if n.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		for _, line := range []string{
			fmt.Sprintf("link add veth0 type veth peer name %s netns %d", n.link, pid),
			fmt.Sprintf("addr add %s%d/30 dev veth0", net, first+2),
			"link set veth0 up",
		} {
			if err := ip(line); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		err = ip(fmt.Sprintf("addr add %s/30 dev %s", n.addr, n.link))
	}
	if err == nil {
		err = ip(fmt.Sprintf("link set %s up", n.link))
	}
	if err != nil {
		n.close()
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	return n, nil
}

func ip(line string) error {
	out, err := exec.Command("ip", strings.Fields(line)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", line, err, out)
	}
	return nil
}

// onThread calls f, which may change the network namespace of its thread.
func onThread(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		own, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = f()
			if unix.Setns(own, unix.CLONE_NEWNET) == nil {
				runtime.UnlockOSThread() // otherwise the thread exits
			}
			unix.Close(own)
		}
		done <- err
	}()
	return <-done
}

// do calls f in the namespace. If n is nil it is that of this process.
func (n *namespace) do(f func() error) error {
	if n == nil {
		return f()
	}
	return onThread(func() error {
		if err := unix.Setns(n.fd, unix.CLONE_NEWNET); err != nil {
			return os.NewSyscallError("setns", err)
		}
		return f()
	})
}

// close removes the namespace when no process uses it any more.
func (n *namespace) close() {
	if n == nil {
		return
	}
	if n.fd >= 0 {
		unix.Close(n.fd)
	}
	ip("link del " + n.link)
}
