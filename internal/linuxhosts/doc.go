// Package linuxhosts composes trees of /proc and /sys for tests of agents. The
// hosts are larger, older or newer than the test machine. Nothing was recorded:
// formats and names are those that the kernel documents in proc(5), sysfs(5) and
// in Documentation/admin-guide, filesystems and networking of its sources.
//
// Parameters say how large a tree is. Every number follows from its place (the
// CPU, the column), so that a test can compute the values an agent must have.
// Some numbers are near 2^64, where counters wrap.
package linuxhosts

import (
	"fmt"
	"maps"
	"strings"
)

// Files is a tree: texts by paths relative to its root. A path that ends in / is
// a directory. A text that begins with "-> " makes a symbolic link to the rest.
type Files map[string]string

// Join returns all files of several trees. If several trees have a file, the last
// one wins.
func Join(trees ...Files) Files {
	all := Files{}
	for _, t := range trees {
		maps.Copy(all, t)
	}
	return all
}

// Large is a number that does not fit into 32 bits. Huge is the second largest
// number of 64 bits: some kernels and agents use the largest for "none".
const (
	Large = 1 << 33
	Huge  = 1<<64 - 2
)

// A text collects lines.
type text struct{ strings.Builder }

func (t *text) line(format string, args ...any) {
	fmt.Fprintf(t, format, args...)
	t.WriteByte('\n')
}

// columns writes a line with names and a line with numbers, as in
// /proc/net/netstat. Numbers count up from first.
func (t *text) columns(name, fields string, first uint64) {
	t.line("%s: %s", name, fields)
	t.WriteString(name + ":")
	for i := range strings.Fields(fields) {
		fmt.Fprintf(t, " %d", first+uint64(i))
	}
	t.WriteByte('\n')
}

// keyed returns a line for each name, with a number. Numbers count down from
// first.
func keyed(format, names string, first uint64) string {
	var t text
	for i, name := range strings.Fields(names) {
		t.line(format, name, first-uint64(i))
	}
	return t.String()
}
