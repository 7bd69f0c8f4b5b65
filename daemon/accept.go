package daemon

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/access"
)

// accept serves those who connect to ln until that is closed.
func (d *Daemon) accept(ctx context.Context, ln net.Listener) {
	var pause time.Duration
	for {
		conn, err := ln.Accept()
		if err == nil {
			pause = 0
			d.welcome(conn)
			continue
		}
		if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		// Descriptors or memory have run out. Those who are connected are
		// served; who waits in the backlog waits a little longer.
		d.rate.printf(d, "accept", "AcceptNewClient: %v", err)
		pause = min(max(2*pause, 5*time.Millisecond), time.Second)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// welcome starts the session of conn.
func (d *Daemon) welcome(conn net.Conn) {
	s := &session{d: d, since: time.Now()}
	if err := s.line.init(conn.(stream)); err != nil {
		conn.Close()
		return
	}
	if err := s.identify(conn.RemoteAddr()); err != nil {
		d.rate.printf(d, "peer", "cannot tell who connected: %v", err)
		s.greet(errnoOf(err))
		conn.Close()
		return
	}
	s.needsCert = d.needsCert(s.peer)
	d.clients.add(s)
	d.sessionTasks.Add(1)
	go d.callers.Serve(s)
}

// identify fills in who the peer is, as far as the socket says.
func (s *session) identify(from net.Addr) error {
	switch addr := from.(type) {
	case *net.TCPAddr:
		ip := addr.AddrPort().Addr().Unmap()
		s.addr = ip.String()
		s.peer = access.Peer{Family: access.Inet, Addr: ip}
		if ip.Is6() {
			s.peer.Family = access.IPv6
		}
	default:
		var cred *syscall.Ucred
		var err error
		cerr := s.line.raw.Control(func(fd uintptr) {
			cred, err = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		})
		if err = errors.Join(err, cerr); err != nil {
			return err
		}
		s.addr = s.d.cfg.Listeners.unix
		s.creds = cred
		s.peer = access.Peer{Family: access.Unix, HasUser: true, UID: cred.Uid, GID: cred.Gid}
	}
	return nil
}
