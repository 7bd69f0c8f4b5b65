package conn

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Unbound has a line for each socket without -i that cannot be opened, and one line if
// both families of a port fail for one reason.
func TestUnboundSockets(t *testing.T) {
	taken := func(network, addr string) int {
		return greeter(t, network, addr, nil).Addr().(*net.TCPAddr).Port
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	silent := filepath.Join(dir, "silent")
	greeter(t, "unix", silent, nil)
	both, first, loop := taken("tcp", ":0"), taken("tcp4", "0.0.0.0:0"), taken("tcp4", "127.0.0.1:0")
	udp, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	const inUse = "bind: address already in use; free it (ss -lntxp shows the program that has it) and restart pmcd"
	for _, tt := range []struct {
		name      string
		addrs     []string
		port      int
		unix      string
		inherited []*os.File
		want      string
	}{
		{"none", nil, 0, filepath.Join(dir, "good"), nil, ""},
		{"both families", nil, both, filepath.Join(dir, "a"), nil, fmt.Sprintf("no client is accepted at port %d: %s", both, inUse)},
		{"one family", nil, first, "", nil, fmt.Sprintf("no client is accepted at address 0.0.0.0, port %d: %s", first, inUse)},
		{"loopback", []string{"loopback"}, loop, "", nil, fmt.Sprintf("no client is accepted at address 127.0.0.1, port %d: %s", loop, inUse)},
		{"not a port", []string{"127.0.0.1"}, 70000, filepath.Join(dir, "b"), nil, ""},
		{"no directory", nil, 0, filepath.Join(dir, "nosuch/c"), nil,
			"no client is accepted at the Unix domain socket " + dir + "/nosuch/c: bind: no such file or directory; there is no directory " + dir + "/nosuch: make it (mkdir -p " + dir + "/nosuch), give it to the user that pmcd runs as, and restart pmcd"},
		{"another file", nil, 0, file, nil,
			"no client is accepted at the Unix domain socket " + file + ": bind: address already in use; the file at this path is not a socket: remove the file or give another path (-s), and restart pmcd"},
		{"another program", nil, 0, silent, nil,
			"no client is accepted at the Unix domain socket " + silent + ": bind: address already in use; a process that does not greet as pmcd listens there: end it (ss -lxp) and restart pmcd"},
		{"inherited", nil, 0, "", []*os.File{inheritable(t, udp)}, `no client is accepted at the inherited socket "x": not a listening socket; a socket unit needs ListenStream= and Accept=no`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l, err := Listen(tt.addrs, []int{tt.port}, tt.unix, tt.inherited...)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if got := strings.Join(l.Unbound(), "\n"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if got := strings.Contains(l.String(), "\n  err "); got != (tt.want != "") && tt.port < 70000 {
				t.Errorf("the table:\n%v", l)
			}
		})
	}
}

// A host without IPv6 is well, unless that was asked for. A family that is absent is
// still in the table.
func TestUnboundFamily(t *testing.T) {
	if !testutil.InOwnNetwork(t) {
		return
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0); err != nil {
		testutil.Missing(t, err) // a kernel without IPv6
	}
	l, err := Listen([]string{"loopback"}, []int{0}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Unbound(); len(got) != 0 {
		t.Errorf("got %q", got)
	}
	if rows := table(l); !slices.ContainsFunc(rows, func(r string) bool { return strings.Contains(r, "  err   -1     0 ipv6   INADDR_LOOPBACK") }) {
		t.Errorf("the table is %q", rows)
	}
	// Without IPv4 addresses, too, it is not well.
	testutil.Run(t, "ip", "addr", "flush", "dev", "lo")
	path := filepath.Join(t.TempDir(), "sock")
	if l, err = Listen([]string{"loopback"}, []int{7}, path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	const want = "no client is accepted at port 7: bind: cannot assign requested address; restart pmcd when that is fixed"
	if got := l.Unbound(); !slices.Equal(got, []string{want}) {
		t.Errorf("got %q, want %q", got, want)
	}
}
