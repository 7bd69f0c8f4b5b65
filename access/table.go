package access

import (
	"fmt"
	"strings"
)

// The heads of the tables in pmcd's log.
const (
	hostHead = `Host access list:
00 01 Cur/MaxCons host-spec                               host-mask                               lvl host-name
== == =========== ======================================= ======================================= === ==============
`
	userHead = `User access list:
00 01 Cur/MaxCons     uid user-name                       group-list
== == =========== ======= =============================== ==========================================================
`
	groupHead = `Group access list:
00 01 Cur/MaxCons     gid group-name                      user-list
== == =========== ======= =============================== ==========================================================
`
)

// String describes the list as pmcd does in its log: tables of hosts, users
// and groups. Their counts of connections are 0; see Counter.String.
//
// C pmcd differs: it lists the users of a group, which are not known here.
func (l *List) String() string { return l.table(func(*entry) int { return 0 }) }

func (l *List) table(current func(*entry) int) string {
	if l == nil {
		l = new(List)
	}
	var b strings.Builder
	row := func(e *entry) {
		for _, op := range []Op{Fetch, Store} {
			switch {
			case e.Specified&op == 0:
				b.WriteString("   ")
			case e.Denied&op == 0:
				b.WriteString(" y ")
			default:
				b.WriteString(" n ")
			}
		}
		fmt.Fprintf(&b, "%5d %5d ", current(e), e.Max)
	}
	if len(l.hosts) == 0 {
		b.WriteString("Host access list empty: host-based access control turned off\n")
	} else {
		b.WriteString(hostHead)
	}
	for _, e := range l.hosts {
		mask := "/"
		if e.Host.Family != Unix {
			mask = e.Host.Mask.String()
		}
		row(e)
		fmt.Fprintf(&b, "%-39s %-39s %3d %s\n", e.Host, mask, e.Host.Level, e.Name)
	}
	account := func(e *entry) {
		id := Wildcard
		if e.Name != Wildcard {
			id = fmt.Sprint(e.ID)
		}
		row(e)
		fmt.Fprintf(&b, "%7s %-31s", id, e.Name)
		sep := ' '
		for i, gid := range e.Groups {
			name := ""
			if i < len(e.GroupNames) {
				name = e.GroupNames[i]
			}
			fmt.Fprintf(&b, "%c%d(%s)", sep, gid, name)
			sep = ','
		}
		b.WriteByte('\n')
	}
	if l.users.inUse {
		b.WriteString(userHead)
		l.users.each(account)
	} else {
		b.WriteString("User access list empty: user-based access control turned off\n")
	}
	if l.groups.inUse {
		b.WriteString(groupHead)
		l.groups.each(account)
	} else {
		b.WriteString("Group access list empty: group-based access control turned off\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
