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
	go func() {
		// The thread has another network from now on: it ends with the goroutine.
		runtime.LockOSThread()
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
	}()
	r := <-done
	return r.conn, r.err
}

// Dial connects to an address of the machine.
func (m *Machine) Dial(network, address string) (net.Conn, error) {
	if network == "unix" {
		return net.Dial(network, m.Path(address))
	}
	return DialFrom(m.init.Process.Pid, network, address)
}
