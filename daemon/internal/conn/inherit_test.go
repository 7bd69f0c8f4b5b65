package conn

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// An inherited socket replaces those of its kind, and only those.
func TestListenGiven(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	tests := []struct {
		name, network, addr string
		report              string // of the inherited socket
		networks            string // of all
		stays               bool   // its file stays
	}{
		{"any", "tcp4", "0.0.0.0:0", " inet   INADDR_ANY (inherited: x)", "tcp unix", false},
		{"any, IPv6", "tcp6", "[::]:0", " ipv6   INADDR_ANY (inherited: x)", "tcp unix", false},
		{"loopback", "tcp4", "127.0.0.1:0", " inet   INADDR_LOOPBACK (inherited: x)", "tcp unix", false},
		{"Unix", "unix", filepath.Join(dir, "inherited"), " unix   " + filepath.Join(dir, "inherited") + " (inherited: x)", "unix tcp", true},
		{"abstract", "unix", "@" + dir, " unix   @" + dir + " (inherited: x)", "unix tcp", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ln, err := net.Listen(tt.network, tt.addr)
			if err != nil {
				if tt.network == "tcp6" {
					testutil.Missing(t, err)
				}
				t.Fatal(err)
			}
			defer ln.Close()
			l, err := Listen([]string{"127.0.0.1"}, []int{0}, own, inheritable(t, ln))
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if row := table(l)[0]; !strings.HasPrefix(row, "  ok ") || !strings.HasSuffix(row, tt.report) {
				t.Errorf("%q, want one that ends in %q", row, tt.report)
			}
			var networks []string
			for _, a := range l.Addrs() {
				networks = append(networks, a.Network())
			}
			if got := strings.Join(networks, " "); got != tt.networks {
				t.Errorf("sockets %q, want %q", got, tt.networks)
			}
			if l.Addrs()[0].String() != ln.Addr().String() {
				t.Errorf("serves %v, not %v", l.Addrs()[0], ln.Addr())
			}
			l.Close()
			if _, err := os.Lstat(tt.addr); tt.stays && err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(own); err == nil {
				t.Error("the file of its own socket is left")
			}
		})
	}
}

// What is no listening socket is in the report, and the others are served.
func TestListenGivenUnusable(t *testing.T) {
	dir := t.TempDir()
	udp, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	unixgram, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: filepath.Join(dir, "gram")})
	if err != nil {
		t.Fatal(err)
	}
	defer unixgram.Close()
	file, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Listen([]string{"127.0.0.1"}, []int{0}, filepath.Join(dir, "own"), inheritable(t, udp), inheritable(t, unixgram), file)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, row := range table(l)[:3] {
		if !strings.HasPrefix(row, "  err   -1 ") {
			t.Errorf("in the report: %q", row)
		}
	}
	if n := len(l.Addrs()); n != 2 {
		t.Errorf("%d sockets, want the two that were asked for", n)
	}
	if l, err := Listen(nil, nil, "", inheritable(t, udp)); err == nil {
		l.Close()
		t.Error("no error although there is no socket at all")
	}
}

// table returns the rows of the table of request ports.
func table(l *Listeners) []string { return strings.Split(l.String(), "\n")[3:] }

// inheritable returns the descriptor of a socket as a service manager passes it.
func inheritable(t *testing.T, v any) *os.File {
	t.Helper()
	f, err := v.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fd, err := syscall.Dup(int(f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "x")
}
