package pmcdtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// AwaitEnd waits for the end of a process.
func AwaitEnd(t *testing.T, pid int) {
	t.Helper()
	if !peer.Until(peer.Hangs, func() bool {
		stat := Read(fmt.Sprintf("/proc/%d/stat", pid))
		return stat == "" || strings.Contains(stat, ") Z ")
	}) {
		t.Fatalf("process %d (%s) does not end", pid, Read(fmt.Sprintf("/proc/%d/comm", pid)))
	}
}

// ProcStatus returns a field of /proc/PID/status, "" if there is no such process.
func ProcStatus(pid int, field string) string {
	for line := range strings.Lines(Read(fmt.Sprintf("/proc/%d/status", pid))) {
		if v, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return ""
}

// IDs returns the user, the group and the supplementary groups of a process, as
// /proc/PID/status has them.
func IDs(pid int) string {
	return fmt.Sprintf("uid %s gid %s groups %s", ProcStatus(pid, "Uid"), ProcStatus(pid, "Gid"), ProcStatus(pid, "Groups"))
}

// Children returns the child processes of a process by the name in argv[0].
func Children(pid int) map[string]int {
	m := make(map[string]int)
	for _, p := range peer.Descendants(pid) {
		if ProcStatus(p.PID, "PPid") == strconv.Itoa(pid) {
			argv0, _, _ := strings.Cut(Read(fmt.Sprintf("/proc/%d/cmdline", p.PID)), "\x00")
			m[filepath.Base(argv0)] = p.PID
		}
	}
	return m
}

// Running returns the ids of the processes whose program is path.
func Running(path string) (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == path {
			pid, _ := strconv.Atoi(strings.Split(link, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

// WithText returns the ids of the processes whose command line contains text.
func WithText(text string) (pids []string) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(text)) {
			pids = append(pids, strings.Split(f, "/")[2])
		}
	}
	return pids
}

// Read returns the content of a file so far, "" if there is none.
func Read(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// IsClosed reports whether a channel is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
