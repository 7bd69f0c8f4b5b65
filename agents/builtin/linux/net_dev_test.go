package linux

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// The last colon ends the name of an interface, also if a number follows it at once, as
// old kernels write it. Kernels before 4.16 permit names with colons.
func TestInterfaceColons(t *testing.T) {
	dev := "Inter-|\n face |\n" +
		"team0:1:     700     7 1 0 0 0 0 0 900 9 0 0 0 0 0 0\n" +
		" team0: 402582904 916378 2 0 0 0 0 0 96022876 713917 0 0 0 0 0 0\n" +
		"bond1:vip:12345678 5 3 0 0 0 0 0 60 6 0 0 0 0 0 0\n" +
		"  eth0:3000000000 8 4 0 0 0 0 0 70 7 0 0 0 0 0 0\n" +
		"  a::b:: 1 2 5 0 0 0 0 0 70 7 0 0 0 0 0 0\n" +
		"::: 2 1 6 0 0 0 0 0 70 7 0 0 0 0 0 0\n"
	root := pmdatest.Tree(t, map[string]string{
		"proc/net/dev":              dev,
		"sys/class/net/team0/mtu":   "1500\n",
		"sys/class/net/team0:1/mtu": "1400\n",
		"proc/net/if_inet6":         "20010db8000000000000000000000001 02 40 00 80  team0:1\n",
	})
	r := newHarness(t, Options{Root: root}, addr4("team0:1", "192.0.2.1"))
	r.Want(map[string]string{
		"network.interface.in.bytes":   "team0:1=700 team0=402582904 bond1:vip=12345678 eth0=3000000000 a::b:=1 ::=2",
		"network.interface.in.packets": "team0:1=7 team0=916378 bond1:vip=5 eth0=8 a::b:=2 ::=1",
		"network.interface.in.errors":  "team0:1=1 team0=2 bond1:vip=3 eth0=4 a::b:=5 ::=6",
		"network.interface.mtu":        "team0:1=1400 team0=1500",
		"network.interface.ipv6_addr":  "team0:1=2001:db8::1/64",
		"network.interface.inet_addr":  "team0:1=192.0.2.1",
		"hinv.ninterface":              "6",
	})
}

// The next fetch sees changes of interfaces, both if the kernel reports changes and
// if all files are read again. The test needs a network name space of its own.
func TestInterfacesChange(t *testing.T) {
	if !testutil.InProcess(t, syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}) {
		return
	}
	testutil.NeedProgram(t, "ip")
	run := func(command string) {
		t.Helper()
		if out, err := exec.Command("sh", "-ec", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	run("mount --make-rprivate /; mount -t sysfs sys /sys")
	var harnesses []*pmdatest.Harness
	for _, root := range []string{"/", "/."} { // with the other one all files are read again, as for containers
		h := newHost(60, Options{Root: root, CacheDir: t.TempDir(), ConfDir: t.TempDir()})
		a, err := pmda.New(h.config())
		if err != nil {
			t.Fatal(err)
		}
		harnesses = append(harnesses, pmdatest.New(t, 60, a, h.metrics()))
	}
	for _, tt := range []struct{ command, mtu, up, virtual, hw, inet string }{
		{"for l in lo $(ls /sys/class/net); do ip link del dev $l 2>/dev/null || :; done",
			"lo=65536", "lo=0", "lo=1", "lo=00:00:00:00:00:00", ""},
		{"ip link add name a address 02:00:00:00:00:0a mtu 1400 type bridge; ip link add name b address 02:00:00:00:00:0b mtu 1300 type bridge",
			"a=1400 b=1300 lo=65536", "a=0 b=0 lo=0", "a=1 b=1 lo=1", "a=02:00:00:00:00:0a b=02:00:00:00:00:0b lo=00:00:00:00:00:00", ""},
		{"ip link set dev a name t; ip link set dev b name a; ip link set dev t name b",
			"a=1300 b=1400 lo=65536", "a=0 b=0 lo=0", "a=1 b=1 lo=1", "a=02:00:00:00:00:0b b=02:00:00:00:00:0a lo=00:00:00:00:00:00", ""},
		{"ip link set dev a mtu 1200 up; ip addr add 192.0.2.1/24 dev a",
			"a=1200 b=1400 lo=65536", "a=1 b=0 lo=0", "a=1 b=1 lo=1", "a=02:00:00:00:00:0b b=02:00:00:00:00:0a lo=00:00:00:00:00:00", "a=192.0.2.1"},
		{"ip link set dev b address 02:00:00:00:00:0c; ip addr del 192.0.2.1/24 dev a; ip addr add 192.0.2.2/24 dev b",
			"a=1200 b=1400 lo=65536", "a=1 b=0 lo=0", "a=1 b=1 lo=1", "a=02:00:00:00:00:0b b=02:00:00:00:00:0c lo=00:00:00:00:00:00", "b=192.0.2.2"},
		{"ip link del dev a; ip link add name a address 02:00:00:00:00:0d mtu 1111 type bridge",
			"a=1111 b=1400 lo=65536", "a=0 b=0 lo=0", "a=1 b=1 lo=1", "a=02:00:00:00:00:0d b=02:00:00:00:00:0c lo=00:00:00:00:00:00", "b=192.0.2.2"},
		{"ip link del dev a; ip link del dev b",
			"lo=65536", "lo=0", "lo=1", "lo=00:00:00:00:00:00", ""},
	} {
		run(tt.command)
		for _, r := range harnesses {
			for name, want := range map[string]string{"mtu": tt.mtu, "up": tt.up, "virtual": tt.virtual, "hw_addr": tt.hw, "inet_addr": tt.inet} {
				// Instances of addresses have another order.
				got := strings.Fields(r.Values("network.interface." + name))
				slices.Sort(got)
				if got := strings.Join(got, " "); got != want {
					t.Errorf("%s\n got %q\nwant %q", name, got, want)
				}
			}
		}
		if t.Failed() {
			t.Fatalf("after %s", tt.command)
		}
	}

	// A new device with the name of a removed one is not taken for it, whether a
	// file of the device is open or only the directory.
	sys := new(sysfile.Reader)
	defer sys.Close()
	mtu := func(first string) string {
		sys.Begin()
		d := sys.Device("/sys/class/net/", "a")
		if first != "" && len(d.Value(first)) == 0 {
			t.Errorf("there is no %s", first)
		}
		return string(d.Value("mtu"))
	}
	for i, first := range []string{"", "type", "flags", ""} {
		want := strconv.Itoa(1230 + i)
		run("ip link add name a mtu " + want + " type bridge")
		for range 2 {
			if got := mtu(first); got != want {
				t.Errorf("mtu of the new device: %q, want %s", got, want)
			}
		}
		run("ip link del dev a")
		if i%2 == 1 { // else the new device exists before the removal is noticed
			if got := mtu(""); got != "" {
				t.Errorf("mtu of a removed device: %q", got)
			}
		}
	}
}

// An interface that the kernel's reply lacks, because it came or went meanwhile, has no values.
func TestInterfaceThatIsGone(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"proc/net/dev": " eth0: 1\n veth9: 2\n"})
	h := newHost(60, Options{Root: root, CacheDir: t.TempDir(), ConfDir: t.TempDir()})
	h.eachLink = func(f func(link)) error { f(parseLink(linkMessage[syscall.NLMSG_HDRLEN:])); return nil }
	a, err := pmda.New(h.config())
	if err != nil {
		t.Fatal(err)
	}
	pmdatest.New(t, 60, a, h.metrics()).Want(map[string]string{
		"network.interface.in.bytes": "eth0=1 veth9=2",
		"network.interface.mtu":      "eth0=1400",
		"network.interface.up":       "eth0=1",
		"network.interface.running":  "eth0=1",
		"network.interface.type":     "eth0=1",
	})
}

func TestInterfaces(t *testing.T) {
	const zeros = ": 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	root := pmdatest.Tree(t, map[string]string{
		"proc/net/dev":                           " eth0" + zeros + "wlan0" + zeros + " bond0" + zeros + " eth1" + zeros + "veth9" + zeros,
		"sys/class/net/eth0/speed":               "10000\n",
		"sys/class/net/eth0/duplex":              "full\n",
		"sys/class/net/eth0/flags":               "0x1003\n",
		"sys/class/net/eth0/operstate":           "up\n",
		"sys/class/net/eth0/type":                "1\n",
		"sys/class/net/eth0/mtu":                 "9000\n",
		"sys/class/net/eth1/speed":               "-1\n",
		"sys/class/net/eth1/duplex":              "unknown\n",
		"sys/class/net/eth1/flags":               "0x1003\n",
		"sys/class/net/eth1/operstate":           "down\n",
		"sys/class/net/wlan0/wireless/":          "",
		"sys/class/net/wlan0/flags":              "0x1002\n",
		"sys/class/net/wlan0/operstate":          "up\n",
		"sys/class/net/wlan0/address":            "02:00:00:00:00:01\n",
		"sys/class/net/bond0/speed":              "4294967295\n",
		"sys/class/net/bond0/duplex":             "half\n",
		"sys/devices/virtual/net/bond0/":         "",
		"sys/devices/virtual/net/veth9/tx_queue": "",
		"proc/net/if_inet6": "00000000000000000000000000000001 01 80 10 80 lo\n" +
			"fe80000000000000020000fffe000001 02 40 20 80 eth0\n" +
			"20010db8000000000000000000000001 02 40 00 80 eth0\n" +
			"fec00000000000000000000000000001 03 30 40 80 wlan0\n" +
			"00000000000000000000ffffc0000201 04 80 80 80 bond0\n" +
			"00000000000000000000000000000000 04 81 00 80 eth1\n" + // broken
			"0 04 80 00 80 eth1\n" +
			"fe80000000000000020000fffe000002 05 0a 99 80 eth1:2\n",
	})
	r := newHarness(t, Options{Root: root}, addr4("eth0", "192.0.2.1"), addr4("eth0", "192.0.2.2"), addr4("eth0:1", "198.51.100.1"))
	r.Want(map[string]string{
		"network.interface.speed":    "eth0=1192.0929",
		"network.interface.baudrate": "eth0=1250000000",
		"network.interface.duplex":   "eth0=2 bond0=1",
		"network.interface.up":       "eth0=1 wlan0=0 bond0=0 eth1=1 veth9=0",
		"network.interface.running":  "eth0=1 wlan0=0 bond0=0 eth1=0 veth9=0",
		"network.interface.mtu":      "eth0=9000",
		"network.interface.type":     "eth0=1 wlan0=0 bond0=0 eth1=0 veth9=0",
		"network.interface.wireless": "eth0=0 wlan0=1 bond0=0 eth1=0 veth9=0",
		"network.interface.virtual":  "eth0=0 wlan0=0 bond0=1 eth1=0 veth9=1",
	})
	for name, want := range map[string][]string{
		"network.interface.hw_addr":    {"wlan0=02:00:00:00:00:01"},
		"network.interface.inet_addr":  {"eth0=192.0.2.1", "eth0:1=198.51.100.1"},
		"network.interface.ipv6_addr":  {"lo=::1/128", "eth0=2001:db8::1/64", "wlan0=fec0::1/48", "bond0=::ffff:192.0.2.1/128", "eth1:2=fe80::200:ff:fe00:2/10"},
		"network.interface.ipv6_scope": {"lo=Host", "eth0=Global", "wlan0=Site", "bond0=Compat", "eth1:2=Unknown"},
	} {
		got := strings.Fields(r.Values(name))
		if len(got) != len(want) {
			t.Errorf("%s\n got %q\nwant %q in any order", name, got, want)
		}
		for _, w := range want {
			if !strings.Contains(" "+strings.Join(got, " ")+" ", " "+w+" ") {
				t.Errorf("%s is %q, without %s", name, got, w)
			}
		}
	}
}
