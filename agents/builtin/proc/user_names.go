package proc

import (
	"os/user"
	"strconv"
	"time"
)

// accounts are the names of users and groups, which are asked for again and
// again. They are looked up anew after a while.
type accounts struct {
	users, groups map[uint32]string
	since         time.Time
	now           func() time.Time
}

// accountsLast is how long a name is believed.
const accountsLast = time.Minute

func newAccounts() *accounts { return &accounts{now: time.Now} }

// refresh forgets what is too old. It is called once for each request.
func (a *accounts) refresh() {
	if now := a.now(); a.users == nil || now.Sub(a.since) > accountsLast {
		a.users, a.groups, a.since = make(map[uint32]string), make(map[uint32]string), now
	}
}

// user returns the name of a user, "" if there is none.
func (a *accounts) user(uid uint32) string {
	name, ok := a.users[uid]
	if !ok {
		if u, err := user.LookupId(strconv.FormatUint(uint64(uid), 10)); err == nil {
			name = u.Username
		}
		a.users[uid] = name
	}
	return name
}

// group returns the name of a group, "" if there is none.
func (a *accounts) group(gid uint32) string {
	name, ok := a.groups[gid]
	if !ok {
		if g, err := user.LookupGroupId(strconv.FormatUint(uint64(gid), 10)); err == nil {
			name = g.Name
		}
		a.groups[gid] = name
	}
	return name
}
