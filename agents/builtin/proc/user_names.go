package proc

import (
	"os/user"
	"strconv"
	"time"
)

// userNames caches the names of users and groups. All are looked up again after
// userNamesTTL.
type userNames struct {
	users, groups map[uint32]string
	since         time.Time
	now           func() time.Time
}

// userNamesTTL is how long a name stays in the cache.
const userNamesTTL = time.Minute

func newUserNames() *userNames { return &userNames{now: time.Now} }

// refresh empties the cache if it is too old, and reports whether it was. It is called once in each
// request.
func (a *userNames) refresh() bool {
	now := a.now()
	if a.users != nil && now.Sub(a.since) <= userNamesTTL {
		return false
	}
	a.users, a.groups, a.since = make(map[uint32]string), make(map[uint32]string), now
	return true
}

// user returns the name of a user, "" if there is none.
func (a *userNames) user(uid uint32) string {
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
func (a *userNames) group(gid uint32) string {
	name, ok := a.groups[gid]
	if !ok {
		if g, err := user.LookupGroupId(strconv.FormatUint(uint64(gid), 10)); err == nil {
			name = g.Name
		}
		a.groups[gid] = name
	}
	return name
}
