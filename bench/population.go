package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/internal/linuxhosts"
)

// A population is what the host of a scenario has much of.
type population struct {
	kind string // a key of populations
	n    int
}

// populations are made and removed by scripts. $0 is their number, $1 the directory of the bench.
// Some are made in part by add.
var populations = map[string]struct{ add, remove string }{
	"processes": {`
		setsid sh -c 'i=0; while [ $i -lt $0 ]; do sleep 1d & i=$((i+1)); done; echo $$ >$1/group; wait' $0 $1 >/dev/null 2>&1 &
		while [ ! -s $1/group ]; do sleep 0.1; done`, `kill -9 -$(cat $1/group); rm $1/group`},
	"interfaces": {
		`i=0; while [ $i -lt $(($0/2)) ]; do echo link add va$i type veth peer name vb$i; i=$((i+1)); done | ip -batch -`,
		`i=0; while [ $i -lt $(($0/2)) ]; do echo link del va$i; i=$((i+1)); done | ip -batch -`},
	"groups": {`seq -f /sys/fs/cgroup/bench%.0f $0 | xargs mkdir`, `rmdir /sys/fs/cgroup/bench*`},
	// Of version 1, so many in each hierarchy whose controller version 2 does not have.
	"groups1": {`
		for h in cpu cpuacct cpuset memory blkio; do
			mkdir -p $1/groups/$h && mount -t cgroup -o $h none $1/groups/$h 2>/dev/null || continue
			seq -f $1/groups/$h/bench%.0f $0 | xargs mkdir || exit 1
		done`, `for h in $1/groups/*; do rmdir $h/bench*; umount -l $h; done`},
	"mounts":  {"", `umount -l $1/mounts`},
	"sockets": {},
	// pmdalinux asks the C library for the number of CPUs, which reads possible.
	"cpus": {`mount --bind $1/composed/sys/devices/system/cpu /sys/devices/system/cpu`, `umount -l /sys/devices/system/cpu`},
}

// composedHost returns the directory of files of a host that agent linux shows. base is the
// directory of the bench.
func composedHost(base string) string { return filepath.Join(base, "composed") }

// composed are the files of a host with n CPUs.
func composed(n int) linuxhosts.Files {
	return linuxhosts.Join(linuxhosts.NUMA(4, n), linuxhosts.Interrupts(n, n), linuxhosts.Files{
		"proc/loadavg":                    "0.50 0.25 0.12 3/777 4194303\n",
		"sys/devices/system/cpu/possible": fmt.Sprintf("0-%d\n", n-1)})
}

// add makes the population, on a host of its own: see ownHost. The caller calls remove.
func (p population) add(base string) (remove func(), err error) {
	if p == (population{}) {
		return func() {}, nil
	}
	if os.Getenv(ownHostVar) == "" {
		return nil, errors.New("these scenarios need a host of their own")
	}
	scripts := populations[p.kind]
	var open []func() error
	switch p.kind {
	case "sockets":
		open, err = connections(p.n)
	case "cpus":
		err = writeTree(composedHost(base), composed(p.n))
	case "mounts":
		err = mounts(filepath.Join(base, "mounts"), p.n)
	}
	remove = func() {
		for _, closes := range open {
			closes()
		}
		sh(scripts.remove, p.n, base)
		for p.kind == "processes" { // this process is the first of its host: their parent has ended
			if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
				break
			}
		}
	}
	if err == nil {
		err = sh(scripts.add, p.n, base)
	}
	if err != nil {
		remove()
	}
	return remove, err
}

// connections makes n connections of two sockets.
func connections(n int) (open []func() error, err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	open = append(open, l.Close)
	for range n {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			return open, err
		}
		s, err := l.Accept()
		if err != nil {
			return append(open, c.Close), err
		}
		open = append(open, c.Close, s.Close)
	}
	return open, nil
}

// mounts mounts n small file systems below top, which is one, too.
func mounts(top string, n int) error {
	for i := range n + 1 {
		dir := top
		if i > 0 {
			dir = filepath.Join(top, fmt.Sprint(i))
		}
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = unix.Mount("none", dir, "tmpfs", 0, "")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ownHostVar is set in the environment of a process that ownHost has started.
const ownHostVar = "BENCH_OWN_HOST"

// ownHost runs this program again as the first process of name spaces of its own, with the
// interfaces, mounts and control groups of a new host. It needs root. It returns only an error.
func ownHost() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"sh", "-c", `
		top=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
		[ -z "$top" ] || { mkdir "$top/bench$$" && echo $$ >"$top/bench$$/cgroup.procs"; } || exit 1
		unshare --pid --net --mount --cgroup --fork --kill-child sh -c '
			mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t cgroup2 cgroup2 /sys/fs/cgroup &&
			ip link set lo up && exec "$0" "$@"' "$@"
		code=$?
		[ -z "$top" ] || { echo $$ >"$top/cgroup.procs"; rmdir "$top/bench$$"; }
		exit $code`, "bench", self}, os.Args[1:]...)
	return syscall.Exec("/bin/sh", args, append(os.Environ(), ownHostVar+"=1"))
}
