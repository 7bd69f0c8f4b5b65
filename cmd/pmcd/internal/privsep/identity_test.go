package privsep

import (
	"fmt"
	"os/user"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

func TestRunAs(t *testing.T) {
	env := func(vars ...string) func(string) string {
		return func(name string) string {
			for _, v := range vars {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		user string
		euid int
		env  string
		uid  int // -1 is no other than before
		err  string
	}{
		{"", 0, "PCP_USER=root", 0, ""},
		{"root", 0, "PCP_USER=nosuchuser", 0, ""},
		{"", 0, "PCP_USER=nosuchuser", 0, "cannot run as user nosuchuser: "},
		{"nosuchuser", 0, "", 0, "cannot run as user nosuchuser: "},
		{"", 65534, "PCP_USER=root", -1, ""},
		{"root", 65534, "", 0, "cannot run as user root: only root can change the user; start pmcd as root or as that user"},
	} {
		id, err := RunAs(c.user, c.euid, env(c.env))
		if c.err != "" {
			if err == nil || !strings.HasPrefix(err.Error(), c.err) {
				t.Errorf("%+v: %v", c, err)
			}
			continue
		}
		if err != nil || (id == nil) != (c.uid < 0) || id != nil && id.UID != c.uid {
			t.Errorf("%+v: %+v, %v", c, id, err)
		}
	}
}

// A user that has other groups has them in the daemon, too.
func TestLookUpIdentity(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		testutil.Missing(t, err)
	}
	id, err := LookUp(me.Username)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := me.GroupIds()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(strings.Trim(fmt.Sprint(id.Groups), "[]")); fmt.Sprint(id.UID) != me.Uid || fmt.Sprint(id.GID) != me.Gid || !slices.Equal(got, groups) {
		t.Errorf("got %+v for %+v in %v", id, me, groups)
	}
}
