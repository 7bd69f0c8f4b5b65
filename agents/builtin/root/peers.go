package root

import (
	"cmp"
	"os"
	"os/user"
	"strconv"
	"strings"
)

// pcpUsers returns the users whose processes may connect, besides root: PCP's user and
// that of this process.
func pcpUsers() []uint32 {
	list := []uint32{uint32(os.Geteuid())}
	if u, err := user.Lookup(cmp.Or(os.Getenv("PCP_USER"), "pcp")); err == nil {
		if uid, err := strconv.ParseUint(u.Uid, 10, 32); err == nil {
			list = append(list, uint32(uid))
		}
	}
	return list
}

// clean returns the name of a container in a request, without a NUL at its end and
// what follows it, as pmdaroot takes it.
func clean(name string) string {
	name, _, _ = strings.Cut(name, "\x00")
	return name
}
