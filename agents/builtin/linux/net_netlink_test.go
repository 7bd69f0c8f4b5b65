package linux

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
	"golang.org/x/sys/unix"
)

// FuzzIPv4 parses messages of rtnetlink(7).
func FuzzIPv4(f *testing.F) {
	f.Add(addrMessage)
	f.Add(append(addrMessage[:48:48], "\x14\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"...)) // NLMSG_ERROR
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = eachIPv4(b, 0, func(i ipv4) {
			if len(i.label) == 0 || !i.addr.Is4() {
				t.Errorf("%v", i)
			}
		})
	})
}

// addrMessage is RTM_NEWADDR of 192.0.2.2 with the label eth0:1.
var addrMessage = func() []byte {
	word := binary.NativeEndian
	attr := func(b []byte, typ uint16, value string) []byte {
		b = word.AppendUint16(word.AppendUint16(b, uint16(4+len(value))), typ)
		b = append(b, value...)
		return append(b, make([]byte, -len(value)&3)...)
	}
	m := make([]byte, 16+8)
	m = attr(m, 2, "\xc0\x00\x02\x02") // IFA_LOCAL
	m = attr(m, 3, "eth0:1\x00")       // IFA_LABEL
	m = attr(m, 9, "")                 // another
	word.PutUint32(m, uint32(len(m)))
	word.PutUint16(m[4:], 20) // RTM_NEWADDR
	return m
}()

func TestIPv4(t *testing.T) {
	message := func(typ byte, body string) []byte {
		return append([]byte{byte(16 + len(body)), 0, 0, 0, typ, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, body...)
	}
	for _, tt := range []struct {
		what string
		b    []byte
		seq  uint32
		want string
		done bool
		err  error
	}{
		{"a truncated message", append(addrMessage, addrMessage[:47]...), 0, "eth0:1 192.0.2.2\n", false, nil},
		{"a reply to another request", addrMessage, 1, "", false, nil},
		{"the end", append(addrMessage, message(3, "\x00\x00\x00\x00")...), 0, "eth0:1 192.0.2.2\n", true, nil},
		{"an error", message(2, "\xff\xff\xff\xff"), 0, "", true, syscall.EPERM},
		{"an error without a number", message(2, "x"), 0, "", true, syscall.EBADMSG},
		{"no address", message(20, ""), 0, "", false, nil},
		{"an empty reply", nil, 0, "", false, nil},
	} {
		got := ""
		done, err := eachIPv4(tt.b, tt.seq, func(i ipv4) { got += fmt.Sprintf("%s %v\n", i.label, i.addr) })
		if got != tt.want || done != tt.done || err != tt.err {
			t.Errorf("%s: %q, %v, %v", tt.what, got, done, err)
		}
	}
	interrupted := slices.Clone(addrMessage)
	interrupted[6] = unix.NLM_F_DUMP_INTR
	if done, err := eachIPv4(interrupted, 0, func(ipv4) {}); !done || err != errInterrupted {
		t.Errorf("an interrupted reply: %v, %v", done, err)
	}
	// The kernel's reply: all hosts have a loopback interface.
	var n netlink
	defer n.close()
	for range 2 {
		found := false
		if err := n.each(func(i ipv4) { found = found || string(i.label) == "lo" && i.addr.IsLoopback() }); err != nil || !found {
			t.Errorf("no address of lo, %v", err)
		}
	}
	// A request whose reply is interrupted is made once more.
	calls := 0
	err := n.dump(syscall.RTM_GETADDR, syscall.AF_INET, func([]byte, uint32) (bool, error) { calls++; return true, errInterrupted })
	if err != errInterrupted || calls != 2 {
		t.Errorf("%d interrupted replies, %v", calls, err)
	}
	if err := n.each(func(ipv4) {}); err != nil {
		t.Error(err)
	}
	// After an error of the socket, the next call opens a new one.
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if err := syscall.Dup3(int(null.Fd()), n.fd, syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	if err := n.each(func(ipv4) {}); err != io.ErrUnexpectedEOF {
		t.Errorf("a descriptor that is not a socket: %v", err)
	}
	if err := n.each(func(ipv4) {}); err != nil {
		t.Error(err)
	}
}

// FuzzLink parses the body of RTM_NEWLINK.
func FuzzLink(f *testing.F) {
	f.Add(linkMessage[syscall.NLMSG_HDRLEN:])
	f.Fuzz(func(_ *testing.T, b []byte) { parseLink(b) })
}

// linkMessage is RTM_NEWLINK of eth0, which is up and running, with an MTU of 1400.
var linkMessage = func() []byte {
	word := binary.NativeEndian
	m := make([]byte, syscall.NLMSG_HDRLEN+syscall.SizeofIfInfomsg)
	word.PutUint16(m[4:], syscall.RTM_NEWLINK)
	word.PutUint16(m[18:], 1) // ARPHRD_ETHER
	word.PutUint32(m[24:], up|running)
	m = word.AppendUint16(word.AppendUint16(m, 9), syscall.IFLA_IFNAME)
	m = append(m, "eth0\x00\x00\x00\x00"...)
	m = word.AppendUint16(word.AppendUint16(m, 8), syscall.IFLA_MTU)
	m = word.AppendUint32(m, 1400)
	word.PutUint32(m, uint32(len(m)))
	return m
}()

func TestLinks(t *testing.T) {
	var got []string
	add := func(body []byte) {
		l := parseLink(body)
		got = append(got, fmt.Sprintf("%s mtu %d flags %#x type %d", l.name, l.mtu, l.flags, l.typ))
	}
	if done, err := eachMessage(append(linkMessage, linkMessage[:20]...), 0, syscall.RTM_NEWLINK, add); done || err != nil {
		t.Error(done, err)
	}
	if want := "[eth0 mtu 1400 flags 0x41 type 1]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for n := range linkMessage {
		parseLink(linkMessage[16:max(16, n)])
	}
}

// Interfaces have the values of the agent's network name space, also where /sys is that of
// another one, as in a container without a /sys of its own. A veth tells its speed also if it is
// down.
func TestLinksOfOtherSys(t *testing.T) {
	if !testutil.InProcess(t, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}) {
		return
	}
	testutil.NeedProgram(t, "ip")
	if out, err := exec.Command("sh", "-ec", "ip link set dev lo up mtu 1234; ip link add name va mtu 1300 type veth peer name vb").CombinedOutput(); err != nil {
		testutil.Missing(t, fmt.Errorf("%w: %s", err, out))
		return
	}
	h := newHost(60, Options{CacheDir: t.TempDir(), ConfDir: t.TempDir()})
	a, err := pmda.New(h.config())
	if err != nil {
		t.Fatal(err)
	}
	r := pmdatest.New(t, 60, a, h.metrics())
	for name, want := range map[string]string{
		"network.interface.mtu":      "lo=1234 va=1300 vb=1500",
		"network.interface.up":       "lo=1 va=0 vb=0",
		"network.interface.running":  "lo=1 va=0 vb=0",
		"network.interface.type":     "lo=772 va=1 vb=1",
		"network.interface.speed":    "va=1192.0929 vb=1192.0929",
		"network.interface.baudrate": "va=1250000000 vb=1250000000",
		"network.interface.duplex":   "va=2 vb=2",
	} {
		got := slices.Sorted(strings.FieldsSeq(r.Values(name)))
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	// If the kernel does not reply, as in a container that may not be entered, /sys has the values.
	// The next fetch asks again.
	for _, err := range []error{syscall.EPERM, nil} {
		each, asked := h.rtnl.eachLink, false
		h.eachLink = func(f func(link)) error {
			asked = true
			if err != nil {
				return err
			}
			return each(f)
		}
		if err != nil {
			if out, err := exec.Command("sh", "-ec", "mount -t sysfs sysfs /sys; ip link set dev va mtu 1400").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		got := slices.Sorted(strings.FieldsSeq(r.Values("network.interface.mtu")))
		if got := strings.Join(got, " "); got != "lo=1234 va=1400 vb=1500" || !asked {
			t.Errorf("with %v: mtu %q, asked: %t", err, got, asked)
		}
	}
}
