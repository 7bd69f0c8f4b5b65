package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gopcp/pmcd/agents/linuxhosts"
)

// A population is what the host of a scenario has much of.
type population struct {
	processes, interfaces, mounts int
	groups, groups1               int // control groups of version 2, and in each of hierarchies1
	sockets                       int // TCP connections, of two sockets
	cpus                          int // of a composed host: see composedHost
}

// groupsDir is where prepareHost mounts the control groups of version 2.
const groupsDir = "/sys/fs/cgroup"

// hierarchies1 are of version 1, and mounted below the directory of the bench.
var hierarchies1 = []string{"cpu", "cpuacct", "cpuset", "memory", "blkio"}

// composedHost returns the directory of files of a host that agent linux shows. base is the
// directory of the bench.
func composedHost(base string) string { return filepath.Join(base, "composed") }

// make makes the population, on a host of its own: see ownHost. The caller calls remove.
func (p population) make(base string) (remove func(), err error) {
	var undo []func()
	remove = func() {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	defer func() {
		if err != nil {
			remove()
		}
	}()
	if p != (population{}) && os.Getenv(ownHostVar) == "" {
		return remove, errors.New("these scenarios need a host of their own")
	}
	if p.processes > 0 {
		cmd := exec.Command("sh", "-c", `i=0; while [ $i -lt $0 ]; do sleep 1d & i=$((i+1)); done; echo; wait`, strconv.Itoa(p.processes))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			return remove, err
		}
		undo = append(undo, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); cmd.Wait(); reap() })
		if _, err := out.Read(make([]byte, 1)); err != nil {
			return remove, err
		}
	}
	addGroups := func(top string, n int) error {
		for i := range n {
			dir := filepath.Join(top, fmt.Sprint("bench", i))
			if err := os.Mkdir(dir, 0o755); err != nil {
				return err
			}
			undo = append(undo, func() { os.Remove(dir) })
		}
		return nil
	}
	if err := addGroups(groupsDir, p.groups); err != nil {
		return remove, err
	}
	for _, name := range hierarchies1 {
		if p.groups1 == 0 {
			break
		}
		top := filepath.Join(base, "groups", name)
		err := os.MkdirAll(top, 0o755)
		if err == nil {
			err = unix.Mount("none", top, "cgroup", 0, name)
		}
		if err == unix.EBUSY {
			continue // version 2 has the controller
		}
		if err == nil {
			undo = append(undo, func() { unix.Unmount(top, unix.MNT_DETACH) })
			err = addGroups(top, p.groups1)
		}
		if err != nil {
			return remove, fmt.Errorf("control groups of version 1, %s: %w", name, err)
		}
	}
	if p.sockets > 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return remove, err
		}
		undo = append(undo, func() { l.Close() })
		for range p.sockets {
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				return remove, err
			}
			undo = append(undo, func() { c.Close() })
			s, err := l.Accept()
			if err != nil {
				return remove, err
			}
			undo = append(undo, func() { s.Close() })
		}
	}
	if p.cpus > 0 {
		const dir = "sys/devices/system/cpu"
		files := linuxhosts.Join(linuxhosts.NUMA(4, p.cpus), linuxhosts.Interrupts(p.cpus, p.cpus),
			linuxhosts.Files{"proc/loadavg": "0.50 0.25 0.12 3/777 4194303\n", dir + "/possible": fmt.Sprintf("0-%d\n", p.cpus-1)})
		top := composedHost(base)
		undo = append(undo, func() { unix.Unmount("/"+dir, unix.MNT_DETACH); os.RemoveAll(top) })
		err := writeTree(top, files)
		if err == nil { // pmdalinux asks the C library for the number of CPUs, which reads possible
			err = unix.Mount(filepath.Join(top, dir), "/"+dir, "", unix.MS_BIND, "")
		}
		if err != nil {
			return remove, err
		}
	}
	if p.interfaces > 0 {
		var add, del strings.Builder
		for i := range p.interfaces / 2 {
			fmt.Fprintf(&add, "link add va%d type veth peer name vb%[1]d\n", i)
			fmt.Fprintf(&del, "link del va%d\n", i)
		}
		undo = append(undo, func() { ipBatch(del.String()) })
		if err := ipBatch(add.String()); err != nil {
			return remove, err
		}
	}
	for i := range p.mounts {
		dir := filepath.Join(base, "mounts", strconv.Itoa(i))
		err := os.MkdirAll(dir, 0o755)
		if err == nil {
			err = unix.Mount("none", dir, "tmpfs", 0, "size=4k")
		}
		if err != nil {
			return remove, err
		}
		undo = append(undo, func() { unix.Unmount(dir, unix.MNT_DETACH) })
	}
	return remove, nil
}

// reap waits for processes whose parent has ended: this one is the first of its host.
func reap() {
	for {
		if _, err := unix.Wait4(-1, nil, 0, nil); err == unix.ECHILD {
			return
		}
	}
}

func ipBatch(lines string) error {
	cmd := exec.Command("ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(lines)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("ip: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// ownHostVar is set in the environment of a process that ownHost has started.
const ownHostVar = "BENCH_OWN_HOST"

// ownHost runs this program again as the first process of name spaces of its own, with the
// interfaces, mounts and control groups of a new host. It needs root.
func ownHost() error {
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), ownHostVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if top := unifiedMount(); top != "" {
		dir := filepath.Join(top, fmt.Sprint("bench", os.Getpid()))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		defer os.Remove(dir)
		f, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer f.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(f.Fd())
	}
	runtime.LockOSThread() // Pdeathsig is of the thread
	return cmd.Run()
}

// unifiedMount returns where control groups of version 2 are mounted, "" if they are not.
func unifiedMount() string {
	text, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(text)) {
		if w := strings.Fields(line); len(w) > 2 && w[2] == "cgroup2" {
			return w[1]
		}
	}
	return ""
}

// prepareHost mounts the file systems of the host that this process is the first one of.
func prepareHost() error {
	err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	if err == nil {
		err = unix.Mount("proc", "/proc", "proc", 0, "")
	}
	if err == nil {
		err = unix.Mount("sysfs", "/sys", "sysfs", 0, "")
	}
	if err == nil {
		err = onThread(func() error {
			if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
				return err
			}
			return unix.Mount("cgroup2", groupsDir, "cgroup2", 0, "")
		})
	}
	if err != nil {
		return fmt.Errorf("name spaces: %w", err)
	}
	return ip("link set lo up")
}
