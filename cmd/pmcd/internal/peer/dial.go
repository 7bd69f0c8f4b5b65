package peer

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// DialFrom connects to an address, which is a number and no name, in the network of the
// process pid.
func DialFrom(pid int, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result)
	go onThread(func() {
		f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "ns/net"))
		if err != nil {
			done <- result{nil, err}
			return
		}
		defer f.Close()
		if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
			done <- result{nil, os.NewSyscallError("setns", err)}
			return
		}
		conn, err := net.Dial(network, address)
		done <- result{conn, err}
	})
	r := <-done
	return r.conn, r.err
}

// onThread calls f on a thread that ends with the goroutine, so f may change it. It is not the
// main thread, which cannot end: /proc/self/net is the network of that.
func onThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() { // the main thread is in use
		defer close(done)
		onThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// Dial connects to an address of the machine.
func (m *Machine) Dial(network, address string) (net.Conn, error) {
	if network == "unix" {
		return net.Dial(network, m.Path(address))
	}
	return DialFrom(m.init.Process.Pid, network, address)
}
