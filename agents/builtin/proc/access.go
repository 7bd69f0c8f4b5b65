package proc

import (
	"bufio"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// accessRules are the contents of the file access.conf (pmdaproc(1)). A client
// whose user name, as pmcd has authenticated it, is in allowed sees everything;
// with "mapped: true" it sees what the local account of that name may see.
type accessRules struct {
	allowed map[string]bool
	mapped  bool
}

// maxAccess is the largest size of access.conf, in bytes.
const maxAccess = 1 << 20

func readAccess(o Options) accessRules {
	path := o.AccessConf
	if path == "" {
		dir, _ := pcpconf.Dir("PCP_SYSCONF_DIR")
		path = filepath.Join(dir, "proc", "access.conf")
	}
	b, err := regular.ReadFile(path, maxAccess)
	if err != nil {
		if !os.IsNotExist(err) {
			o.Log.Warn("{agent}: access.conf cannot be read and is ignored: {error}", "error", err)
		}
		return accessRules{}
	}
	return parseAccess(string(b))
}

// parseAccess parses
//
//	# a comment
//	allowed: alice, bob
//	mapped: true
func parseAccess(text string) accessRules {
	rules := accessRules{allowed: make(map[string]bool)}
	for s := bufio.NewScanner(strings.NewReader(text)); s.Scan(); {
		line, _, _ := strings.Cut(s.Text(), "#")
		if list, ok := strings.CutPrefix(line, "allowed:"); ok {
			for _, name := range strings.FieldsFunc(list, func(c rune) bool { return c == ' ' || c == ',' || c == '\t' }) {
				rules.allowed[name] = true
			}
		} else if list, ok := strings.CutPrefix(line, "mapped:"); ok {
			for _, word := range strings.Fields(list) {
				rules.mapped = rules.mapped || word == "1" || word == "true"
			}
		}
	}
	return rules
}

// impersonate decides what a client may see. An agent that is root assumes the
// client's user and group for the rest of the request.
func (h *host) impersonate(c *pmda.Client) {
	h.mayReadProcesses, h.otherUser = h.AllAccess, false
	if h.AllAccess {
		return
	}
	uid, isUser := c.UID()
	gid, isGroup := c.GID()
	if name, ok := c.Attr(pdu.AttrUserName); ok && h.access.allowed[name] {
		if !h.access.mapped {
			h.mayReadProcesses = true
			return
		}
		if u, g, ok := lookupUser(name); ok {
			uid, gid, isUser, isGroup = u, g, true, true
		}
	}
	switch {
	case !isUser || !isGroup:
		return
	case h.ownCreds.uid != 0:
		h.otherUser = uid != h.ownCreds.uid && uid != 0
	case uid != 0 || gid != h.ownCreds.gid:
		if err := h.ownCreds.assume(uid, gid); err != nil {
			h.Log.Error("{agent}: cannot act as user {uid} and group {gid} of a client: {error}; the client sees no processes", "uid", uid, "gid", gid, "error", err)
			return
		}
		h.impersonating, h.effectiveUID = true, uid
	}
	h.mayReadProcesses = true
}

// restoreOwn ends impersonate: the thread is root again.
func (h *host) restoreOwn() {
	if h.impersonating {
		h.impersonating, h.effectiveUID = false, h.ownCreds.uid
		h.ownCreds.restore()
	}
}

func lookupUser(name string) (uid, gid int, ok bool) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, false
	}
	id, err1 := strconv.ParseUint(u.Uid, 10, 32)
	group, err2 := strconv.ParseUint(u.Gid, 10, 32)
	return int(id), int(group), err1 == nil && err2 == nil
}
