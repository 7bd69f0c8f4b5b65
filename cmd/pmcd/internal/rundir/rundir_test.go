package rundir

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSockets(t *testing.T) {
	uid := os.Getuid()
	root := t.TempDir()
	at := func(dir string) string { return filepath.Join(root, dir, "pmcd.socket") }
	tmp := fmt.Sprintf("t/pcp-%d", uid)
	// In open any user can make what is missing, or may have made it.
	for _, dir := range []string{tmp, "x/pcp", "open", fmt.Sprintf("t/pcp-%d", uid+1)} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for dir, mode := range map[string]fs.FileMode{"t": 0o777 | fs.ModeSticky, "open": 0o777} {
		if err := os.Chmod(filepath.Join(root, dir), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "open/pcp"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		uid             int
		env, first, own string // first is what the environment says
	}{
		{uid, "TMPDIR=/t", "", at(tmp)},
		{uid, "TMPDIR=/t PCP_RUN_DIR=/r", "/r/pmcd.socket", at(tmp)},
		{uid, "TMPDIR=/t XDG_RUNTIME_DIR=/x", "", at("x/pcp") + " " + at(tmp)},
		{uid, "TMPDIR=/none XDG_RUNTIME_DIR=/none", "", ""},
		{uid, "TMPDIR=/none XDG_RUNTIME_DIR=/open", "", ""},
		{uid + 1, "TMPDIR=/t XDG_RUNTIME_DIR=/x", "", ""}, // they are another user's
	} {
		getenv := func(name string) string {
			for e := range strings.FieldsSeq(tt.env) {
				if v, ok := strings.CutPrefix(e, name+"="); ok && name != "PCP_RUN_DIR" {
					return root + v
				} else if ok {
					return v
				}
			}
			return ""
		}
		want := strings.Fields(tt.first + " " + tt.own + " " + at("run/pcp"))
		if tt.uid == 0 {
			want = strings.Fields(tt.first + " " + at("run/pcp") + " " + tt.own)
		}
		if got := Sockets(root, tt.uid, getenv); !slices.Equal(got, want) {
			t.Errorf("%d %s: got %s, want %s", tt.uid, tt.env, got, want)
		}
	}
	explicit := func(name string) string { return map[string]string{"PMCD_SOCKET": "/s", "PCP_RUN_DIR": "/r"}[name] }
	if got := Sockets(root, uid, explicit); !slices.Equal(got, []string{"/s"}) {
		t.Errorf("got %s, want /s", got)
	}
}
