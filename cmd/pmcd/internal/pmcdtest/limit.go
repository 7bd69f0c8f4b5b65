package pmcdtest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// SoftLimit returns how many descriptors a process may have (RLIMIT_NOFILE), and changes
// that unless n is -1. It takes CAP_SYS_RESOURCE, or the user of the process.
func SoftLimit(pid, n int) (was int, err error) {
	set := ""
	if n >= 0 {
		set = fmt.Sprintf("=%d:", n)
	}
	uid, gid := 0, 0
	fmt.Sscan(ProcStatus(pid, "Uid"), &uid)
	fmt.Sscan(ProcStatus(pid, "Gid"), &gid)
	cmd := exec.Command("prlimit", "--noheadings", "--raw", "-o", "SOFT", "--pid", strconv.Itoa(pid), "--nofile"+set)
	if uid != syscall.Getuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, fmt.Errorf("%v: %w\n%s", cmd, err, out)
	}
	fmt.Sscan(string(out), &was)
	return was, nil
}

// DescriptorLimit returns the soft limit with which a process can open room more
// descriptors: the limit is one of their numbers.
func DescriptorLimit(pid, room int) (limit int) {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	taken := make(map[int]bool)
	for _, fd := range fds {
		n := 0
		fmt.Sscan(filepath.Base(fd), &n)
		taken[n] = true
	}
	for free := 0; free < room || taken[limit]; limit++ {
		if !taken[limit] {
			free++
		}
	}
	return limit
}
