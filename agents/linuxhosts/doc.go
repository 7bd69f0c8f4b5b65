// Package linuxhosts composes files of /proc and /sys for tests of what reads
// them: of hosts that are larger, older and newer than the one at hand. Nothing
// in it was recorded; formats and names are those that the kernel documents:
// proc(5), sysfs(5) and Documentation/admin-guide, filesystems and networking of
// its sources.
//
// A tree is large by its parameters, not by the size of this package. All
// numbers follow from places (the CPU, the column), so that what an agent
// makes of them can be said in tests; some are near 2^64, where counters wrap.
package linuxhosts

import (
	"fmt"
	"maps"
	"strings"
)

// Files are a tree: texts by names below its root. A name that ends in / is a
// directory, a text that begins with "-> " is what a symbolic link points to.
type Files map[string]string

// Join returns all files of several trees. Of files with one name it has the
// last.
func Join(trees ...Files) Files {
	all := Files{}
	for _, t := range trees {
		maps.Copy(all, t)
	}
	return all
}

// Large is where numbers begin that are more than 32 bits; Huge is the largest of
// all, but one: some kernels and agents have the largest for "none".
const (
	Large = 1 << 33
	Huge  = 1<<64 - 2
)

// A text is written by lines.
type text struct{ strings.Builder }

func (t *text) line(format string, args ...any) {
	fmt.Fprintf(t, format, args...)
	t.WriteByte('\n')
}

// columns are a line with names and a line with numbers, as in
// /proc/net/netstat: the first number, and each other one more.
func (t *text) columns(name, fields string, first uint64) {
	t.line("%s: %s", name, fields)
	t.WriteString(name + ":")
	for i := range strings.Fields(fields) {
		fmt.Fprintf(t, " %d", first+uint64(i))
	}
	t.WriteByte('\n')
}

// keyed is a line for each name: the first has the number first, and each other
// one less.
func keyed(format, names string, first uint64) string {
	var t text
	for i, name := range strings.Fields(names) {
		t.line(format, name, first-uint64(i))
	}
	return t.String()
}
