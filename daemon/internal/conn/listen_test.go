package conn

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/testutil"
)

// An address of another host is not taken for one of this host's where one may bind
// to any: the pmcd that answers there is no reason not to start.
func TestNonlocalBind(t *testing.T) {
	if !testutil.InOwnNetwork(t) {
		return
	}
	for _, family := range []string{"ipv4", "ipv6"} {
		if err := os.WriteFile("/proc/sys/net/"+family+"/ip_nonlocal_bind", []byte("1"), 0); err != nil {
			t.Fatal(err)
		}
	}
	testutil.Run(t, "ip", "addr", "add", "192.0.2.1/24", "dev", "lo")
	testutil.Run(t, "ip", "addr", "add", "192.0.2.2/24", "dev", "lo")
	testutil.Run(t, "ip", "addr", "add", "2001:db8::1/64", "dev", "lo", "nodad")
	testutil.Run(t, "ip", "addr", "add", "fe80::1/64", "dev", "lo", "nodad")
	for addr, want := range map[string]bool{
		"192.0.2.1": true, "192.0.2.2": true, "192.0.2.3": false, "127.0.0.2": true, "0.0.0.0": true,
		"2001:db8::1": true, "2001:db8::2": false, "fe80::1%lo": true, "fe80::2%lo": false, "::1": true, "::": true,
		"::ffff:192.0.2.1": true, "::ffff:192.0.2.3": false,
	} {
		t.Run(addr, func(t *testing.T) {
			if got := isOwn(addr); got != want {
				t.Errorf("%s: %v, want %v", addr, got, want)
			}
		})
	}
}

// Unbound has the addresses that cannot be listened at, with the reason. They are not
// among those that clients can connect to.
func TestUnboundAddresses(t *testing.T) {
	other, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	port := other.Addr().(*net.TCPAddr).Port
	l, err := Listen([]string{"127.0.0.1", "fe80::1%nosuch0"}, []int{port, 0}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, err = net.Listen("tcp6", "[fe80::1%nosuch0]:0") // invalid argument, unless the kernel has no IPv6
	want := []string{
		fmt.Sprintf("no client is accepted at address 127.0.0.1, port %d (-i): bind: address already in use; free it (ss -lntxp shows the program that has it) and restart pmcd", port),
		fmt.Sprintf("no client is accepted at address fe80::1%%nosuch0, port %d (-i): %v; restart pmcd when that is fixed", port, reason(err)),
		fmt.Sprintf("no client is accepted at address fe80::1%%nosuch0, port 0 (-i): %v; restart pmcd when that is fixed", reason(err)),
	}
	if got := l.Unbound(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if text := l.String(); strings.Contains(text, "err") || strings.Contains(text, "nosuch0") {
		t.Errorf("the table has them:\n%s", text)
	}
	if len(l.Addrs()) != 1 {
		t.Errorf("listening at %v", l.Addrs())
	}
	if _, err := Listen([]string{"fe80::1%nosuch0"}, []int{0}, ""); err == nil || !strings.Contains(err.Error(), "can't open any request ports") {
		t.Errorf("without any address: %v", err)
	}
}

// A second pmcd leaves the socket of one that runs alone; the file that one
// has left behind is replaced; any other file is left alone.
func TestUnixSocketFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	first, err := Listen(nil, nil, path)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(nil, nil, path); err == nil {
		l.Close()
		t.Error("the socket of a running pmcd was taken")
	}
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatalf("the first pmcd has lost its socket: %v", err)
	}
	conn.Close()
	first.file = "" // as after a kill -9
	first.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	again, err := Listen(nil, nil, path)
	if err != nil {
		t.Fatalf("a stale socket is not replaced: %v", err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, %v", fi.Mode(), err)
	}
	again.Close()
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("left behind: %v", err)
	}

	if err := os.WriteFile(path, []byte("precious"), 0o666); err != nil {
		t.Fatal(err)
	}
	if l, err := Listen(nil, nil, path); err == nil {
		l.Close()
		t.Error("a file was replaced")
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "precious" {
		t.Errorf("the file is %q, %v", b, err)
	}
}

// Absent has each numeric address that no interface has, once, as long as that is so.
func TestAbsent(t *testing.T) {
	if !testutil.InOwnNetwork(t) {
		return
	}
	testutil.Run(t, "ip", "addr", "add", "192.0.2.1/24", "dev", "lo")
	l, err := Listen([]string{"0.0.0.0", "127.0.0.2", "192.0.2.1", "192.0.2.7", "2001:db8::7", "fe80::1%nosuch0"}, []int{0, 0, 70000}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	absent := func(want ...string) {
		t.Helper()
		if got := l.Absent(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	absent("192.0.2.7", "2001:db8::7")
	testutil.Run(t, "ip", "addr", "add", "192.0.2.7/32", "dev", "lo")
	absent("2001:db8::7")
	testutil.Run(t, "ip", "addr", "del", "192.0.2.1/24", "dev", "lo")
	absent("192.0.2.1", "2001:db8::7")
	for _, addrs := range [][]string{nil, {"loopback"}} {
		l, err := Listen(addrs, []int{0}, "")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if got := l.Absent(); len(got) != 0 {
			t.Errorf("%q: %q", addrs, got)
		}
	}
}

// Without descriptors it is not known whether an interface has an address: it is not absent then.
func TestAbsentWithoutDescriptors(t *testing.T) {
	l, err := Listen([]string{"127.0.0.2"}, []int{0}, "")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	got := l.Absent()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if len(got) > 0 {
		t.Errorf("absent: %q", got)
	}
}
