package serve

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// The agent runs as the user that -U or PCP_USER names. The log is opened as root.
func TestProcessUser(t *testing.T) {
	testutil.NeedRoot(t)
	nobody, err := user.Lookup("nobody")
	if err != nil {
		testutil.Missing(t, err)
	}
	for _, tt := range []struct {
		name string
		env  string // PCP_USER
		args []string
		want string // in the log
		code int
	}{
		{"-U", "root", []string{"-U", "nobody"}, "Info: user id=" + nobody.Uid + " group=" + nobody.Gid + " ", 0},
		{"-U root", "nobody", []string{"-U", "root"}, "Info: user id=0 group=0 ", 0},
		{"PCP_USER", "nobody", nil, "Info: user id=" + nobody.Uid + " group=" + nobody.Gid + " ", 0},
		{"unknown user", "", []string{"-U", "no such user"}, "Critical: cannot find the no such user user to switch to\n", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PCP_USER", tt.env)
			c := startChild(t, true, tt.args...)
			if tt.code == 0 {
				fetch(t, c.dial(t, nil))
			}
			c.Pipes.Close()
			if status, log := c.wait(t); status.ExitStatus() != tt.code || !strings.Contains(log, tt.want) {
				t.Errorf("ended with %#x, log: %s\nwant %d and %s", status, log, tt.code, tt.want)
			}
			if st, err := os.Stat(c.log); err != nil || st.Sys().(*syscall.Stat_t).Uid != 0 {
				t.Errorf("log: %v, %v; want a file of root", st, err)
			}
		})
	}
}

// A process that is not root's cannot change its user, and keeps it without -U.
func TestSetUser(t *testing.T) {
	if !testutil.Unprivileged(t) {
		return
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if err := setUser("", "root"); err != nil {
		t.Errorf("default: %v", err)
	}
	if err := setUser(me.Username, ""); err != nil {
		t.Errorf("same user: %v", err)
	}
	if err := setUser("root", ""); err == nil || !strings.Contains(err.Error(), "of root user") {
		t.Errorf("root: %v", err)
	}
}

// The agent's environment has the variables of pcp.conf. Variables that are set
// already are not changed.
func TestProcessEnvironment(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "pcp.conf"), []byte("PCP_LOG_DIR=/from/pcp.conf\nPCP_USER=nosuchuser\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PCP_CONF", filepath.Join(dir, "pcp.conf"))
	t.Setenv("PCP_USER", me.Username)
	t.Setenv("PCP_LOG_DIR", "")
	os.Unsetenv("PCP_LOG_DIR")
	c := startChild(t, true)
	c.dial(t, nil).Close()
	if status, log := c.wait(t); status != 0 || !strings.Contains(log, " dir=/from/pcp.conf\n") {
		t.Errorf("ended with %#x, log: %s", status, log)
	}
}
