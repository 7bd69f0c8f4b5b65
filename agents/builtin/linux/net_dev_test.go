package linux

import (
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// What changes of interfaces is seen by the next fetch, whether the kernel tells
// of changes or all is read again. It needs a network name space of its own.
func TestInterfacesChange(t *testing.T) {
	const inside = "LINUX_TEST_NETNS"
	if os.Getenv(inside) == "" {
		for _, tool := range []string{"ip", "unshare", "mount"} {
			if _, err := exec.LookPath(tool); err != nil {
				t.Skip(err)
			}
		}
		if os.Getuid() != 0 {
			t.Skip("only root may make name spaces")
		}
		if out, err := exec.Command("unshare", "-n", "-m", "mount", "-t", "sysfs", "sys", "/sys").CombinedOutput(); err != nil {
			t.Skipf("%v: %s", err, out)
		}
		cmd := exec.Command("unshare", "-n", "-m", os.Args[0], "-test.run", "^TestInterfacesChange$", "-test.v")
		cmd.Env = append(os.Environ(), inside+"=1")
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	run := func(command string) {
		t.Helper()
		if out, err := exec.Command("sh", "-ec", command).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	run("mount -t sysfs sys /sys")
	var rigs []*pmdatest.Rig
	for _, root := range []string{"/", "/."} { // the other one might be a container's
		h := newHost(60, Options{Root: root, CacheDir: t.TempDir(), ConfDir: t.TempDir()})
		a, err := pmda.New(h.config())
		if err != nil {
			t.Fatal(err)
		}
		rigs = append(rigs, pmdatest.New(t, 60, a, h.metrics()))
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
		for _, r := range rigs {
			for name, want := range map[string]string{"mtu": tt.mtu, "up": tt.up, "virtual": tt.virtual, "hw_addr": tt.hw, "inet_addr": tt.inet} {
				// Those with addresses have an order of their own.
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

	// A device that has gone is not taken for one that has got its name, whether
	// a file of it is open or only the directory.
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
				t.Errorf("mtu of another device: %q, want %s", got, want)
			}
		}
		run("ip link del dev a")
		if i%2 == 1 { // else the next one is there before it is missed
			if got := mtu(""); got != "" {
				t.Errorf("mtu of no device: %q", got)
			}
		}
	}
}
