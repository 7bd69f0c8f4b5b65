package daemon

import (
	"syscall"
	"testing"
)

// Connections have their options from the listening socket.
func TestConnectionOptions(t *testing.T) {
	r := newRig(t, nil, nil)
	r.settled()
	r.dial()
	s := r.clients.session(0)
	for _, o := range []struct {
		what              string
		level, name, want int
	}{
		{"SO_KEEPALIVE", syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
		{"SO_LINGER, l_onoff", syscall.SOL_SOCKET, syscall.SO_LINGER, 1},
		{"TCP_NODELAY", syscall.IPPROTO_TCP, syscall.TCP_NODELAY, 1},
		{"TCP_KEEPIDLE", syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
		{"TCP_KEEPINTVL", syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15},
		{"TCP_KEEPCNT", syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 9},
	} {
		var got int
		var err error
		s.raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), o.level, o.name) })
		if err != nil || got != o.want {
			t.Errorf("%s: got %d, %v, want %d", o.what, got, err, o.want)
		}
	}
}
