package main

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// watchdog is the time between two notifications that the daemons of attacks are told
// to keep. They send one after half of it.
const watchdog = 4 * time.Second

// A manager receives a daemon's notifications, as systemd does.
type manager struct {
	*net.UnixConn

	mu   sync.Mutex // guards the following
	last time.Time  // when the last WATCHDOG=1 arrived, or the manager was started
	gap  time.Duration
}

func newManager(path string) (*manager, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	m := &manager{UnixConn: conn, last: time.Now()}
	go func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			if bytes.Contains(buf[:n], []byte("WATCHDOG=1")) {
				m.mu.Lock()
				m.gap, m.last = max(m.gap, time.Since(m.last)), time.Now()
				m.mu.Unlock()
			}
		}
	}()
	return m, nil
}

// longest returns the longest time between two notifications, or since the last one, since it was
// called last.
func (m *manager) longest() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	gap := max(m.gap, time.Since(m.last))
	m.gap = 0
	return gap
}
