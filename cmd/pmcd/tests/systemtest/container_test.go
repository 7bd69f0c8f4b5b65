package systemtest

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// Under the unit, which takes away the right to enter name spaces, clients see the
// containers of the host and what is in them: one of Docker, as far as a host can tell, and
// one of a user that nothing but its control group shows.
func TestUnitContainers(t *testing.T) {
	h := without(t)
	box, mine := strings.Repeat("b0c5", 16), strings.Repeat("3e1f", 16)
	h.Write(t, "/var/lib/docker/containers/"+box+"/config.v2.json", `{"Name":"/box","State":{"Running":true,"Pid":0}}`)
	// The group has a process besides the container.
	h.run(fmt.Sprintf(`cat >/usr/local/bin/group <<'X'
#!/bin/sh
set -e
group=/sys/fs/cgroup$(sed -n s/^0:://p /proc/self/cgroup)/$1
mkdir $group
echo $$ >$group/cgroup.procs
shift
exec "$@"
X
cat >/usr/local/bin/box <<'X'
#!/bin/sh
mkdir -p /run/box && mount -t tmpfs box /run/box && echo boxed >/run/box/hostname && mount --bind /run/box/hostname /etc/hostname
hostname boxed
mount -t sysfs sysfs /sys && mount -t tmpfs -o size=1m boxed /mnt && ip link set lo up mtu 1234
exec sleep 10000
X
chmod 755 /usr/local/bin/box /usr/local/bin/group
systemd-run --quiet --unit=docker -p Delegate=yes group docker-%s.scope unshare --net --mount --uts --pid --fork box
systemd-run --quiet --unit=mine -p Delegate=yes -E HOSTNAME=of-a-user group libpod-%s.scope setpriv --reuid=nobody --clear-groups unshare --user --uts --pid --fork sleep 10000`, box, mine))
	h.until("pgrep -P $(pgrep -f '^unshare --net') sleep && pgrep -P $(pgrep -f '^unshare --user') sleep")
	h.run("chown -R nobody /sys/fs/cgroup/system.slice/mine.service && systemctl start pmcd.service")
	address := "unix://" + h.Path("/run/pcp/pmcd.socket")
	values := func(container, metric string) string {
		host := address
		if container != "" {
			host += "?container=" + container
		}
		out, _ := exec.Command("pminfo", "-h", host, "-f", metric).CombinedOutput()
		return string(out)
	}
	for _, tt := range []struct{ container, metric, want string }{
		{"", "containers.name", `"` + box + `"] value "box"`},
		{"", "containers.engine", `"` + mine + `"] value "podman"`},
		{"", "containers.cgroup", `"` + mine + `"] value "/system.slice/mine.service/libpod-` + mine + `.scope"`},
		{"box", "kernel.uname.nodename", `value "boxed"`},
		{"box", "pmcd.hostname", `value "boxed"`},
		{"box", "proc.nprocs", "value 2\n"},
		{"box", "hinv.ninterface", "value 1\n"},
		{"box", "network.interface.mtu", `"lo"] value 1234`},
		{"box", "tmpfs.capacity", `"/mnt"] value 1024`},
		{box[:4], "kernel.uname.nodename", `value "boxed"`},
		{mine[:4], "kernel.uname.nodename", `value "of-a-user"`},
		{mine, "pmcd.hostname", `value "of-a-user"`},
		{"nosuch", "kernel.uname.nodename", "Container not found"},
		{"b", "kernel.uname.nodename", "Container not found"},
		{mine[:3], "kernel.uname.nodename", "Container not found"},
		{"", "kernel.uname.nodename", `value "booted"`},
	} {
		t.Run(tt.container+" "+tt.metric, func(t *testing.T) {
			var got string
			if !peer.Until(peer.Hangs, func() bool {
				got = values(tt.container, tt.metric)
				return strings.Contains(got, tt.want)
			}) {
				t.Errorf("%s of container %q: %s, want %s", tt.metric, tt.container, got, tt.want)
			}
		})
	}
	h.check("ls -ld /var/lib/pcp/pmcd /var/lib/pcp/pmcd/root.socket", "drwx------ ", "srwxr-xr-x ", " root root ")
	if journal := h.journal("pmcd.service"); strings.Contains(journal, "not permitted") || strings.Contains(journal, "ermission denied") || strings.Contains(journal, "agent root") {
		t.Errorf("the journal:\n%s", journal)
	}
	h.run("systemctl stop pmcd.service && [ ! -e /var/lib/pcp/pmcd/root.socket ]")
}
