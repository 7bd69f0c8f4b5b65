package main

import (
	"net"
	"strings"
	"sync"
	"time"
)

// watchdog is the time between two notifications that the daemons of attacks are told
// to keep. They send one after half of it.
const watchdog = 4 * time.Second

// A manager receives a daemon's notifications, as systemd does.
type manager struct {
	conn *net.UnixConn
	done sync.WaitGroup

	mu   sync.Mutex // guards the following
	last time.Time  // when the last WATCHDOG=1 arrived
	gap  time.Duration
}

func newManager(path string) (*manager, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return nil, err
	}
	m := &manager{conn: conn}
	m.done.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			for line := range strings.Lines(string(buf[:n])) {
				if strings.TrimSpace(line) == "WATCHDOG=1" {
					m.fed(time.Now())
				}
			}
		}
	})
	return m, nil
}

// fed records a notification.
func (m *manager) fed(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.last.IsZero() {
		m.gap = max(m.gap, now.Sub(m.last))
	}
	m.last = now
}

// restart forgets the notifications so far, but for the time of the last one.
func (m *manager) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gap = 0
	if m.last.IsZero() {
		m.last = time.Now()
	}
}

// longest returns the longest time between two notifications, or since the last one.
func (m *manager) longest() time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(m.gap, time.Since(m.last))
}

func (m *manager) close() {
	m.conn.Close()
	m.done.Wait()
}
