//go:build !linux

package conn

import (
	"errors"
	"net"
	"syscall"
)

// newLoop returns the portable implementation, as there is no other one.
func newLoop(a *Acceptor, cfg Config) (loop, error) { return newPortableLoop(a, cfg.Listeners), nil }

// listenConfig returns how to listen at a TCP address.
func listenConfig(absent bool) net.ListenConfig { return net.ListenConfig{} }

// setOptions does nothing: package net sets TCP_NODELAY and SO_KEEPALIVE.
func setOptions(_, _ string, _ syscall.RawConn) error { return nil }

// refuseRights does nothing.
func refuseRights(*net.UnixListener) {}

func bindUnix(path string) (net.Listener, error) {
	defer syscall.Umask(syscall.Umask(0o111))
	return net.Listen("unix", path)
}

// setCredentials returns an error: clients of a Unix socket are not accepted.
func (p *Peer) setCredentials(int) error {
	return errors.New("the user of a Unix socket is not known on this system")
}

// unsentOf returns 0: what was written counts as taken.
func unsentOf(syscall.RawConn) int { return 0 }
