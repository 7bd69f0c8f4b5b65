package pmcdtest

import (
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// A Manager is a service manager: the socket that NOTIFY_SOCKET names (sd_notify(3)).
type Manager struct {
	t    *testing.T
	conn *net.UnixConn
}

// NewManager listens at an address, which may be abstract (@NAME).
func NewManager(t *testing.T, addr string) *Manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: addr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &Manager{t: t, conn: conn}
}

// Next returns the lines of the next message that is not for the watchdog.
func (m *Manager) Next() []string {
	m.t.Helper()
	for {
		lines, err := m.Within(peer.Hangs)
		if err != nil {
			m.t.Fatal(err)
		}
		if !slices.Equal(lines, []string{"WATCHDOG=1"}) {
			return lines
		}
	}
}

// Within returns the lines of the next message, or an error if none comes in time.
func (m *Manager) Within(d time.Duration) ([]string, error) {
	buf := make([]byte, 4096)
	m.conn.SetReadDeadline(time.Now().Add(d))
	n, err := m.conn.Read(buf)
	return strings.Split(string(buf[:n]), "\n"), err
}
