package root

import (
	"strings"
	"testing"
)

// Names are matched by the whole id, by the name, or by four bytes of the id or more.
func TestFind(t *testing.T) {
	other := idA[:6] + strings.Repeat("f", 58)
	list := []*container{
		{id: idA, engine: docker, name: "web", pid: 1},
		{id: other, engine: docker, name: "db", pid: -1},
		{id: idB, engine: podman, name: idC[:8], pid: 2},
		{id: idC, engine: podman, name: "twice", pid: 3},
		{id: idD, engine: podman, name: "twice", pid: 4},
		{id: "longname", engine: lxc, name: "longname", pid: 5},
		{id: idE, engine: podman, name: "web", pid: 6, ofUser: true},
		{id: idF, engine: podman, name: "mine", pid: 7, ofUser: true},
	}
	for _, tt := range []struct {
		name string
		pid  int // 0: none
	}{
		{idA, 1}, {other, -1}, {"web", 1}, {"/web", 1}, {"db", -1}, {"mine", 7}, {"longname", 5},
		{idA[:4], 1}, // the one that runs
		{idA[:7], 1}, {other[:7], -1},
		{idA[:3], 0}, {idA[:1], 0}, {"w", 0}, {"we", 0}, {"webx", 0}, {"", 0}, {"/", 0}, {"WEB", 0},
		{idA + "0", 0}, {strings.ToUpper(idA), 0},
		{idC[:8], 2}, // a name before the beginning of an id
		{idC[:7], 3},
		{"twice", 0}, // both run
		{"long", 0},  // names of LXC have to be complete
		{idE[:4], 6}, {idE, 6},
	} {
		pid := 0
		if c := find(list, tt.name); c != nil {
			pid = c.pid
		}
		if pid != tt.pid {
			t.Errorf("%q: container with process %d, want %d", tt.name, pid, tt.pid)
		}
	}
}
