package serve

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The agent runs as the user that it should. Its log was opened before.
func TestProcessUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	for _, tt := range []struct {
		name string
		env  string // PCP_USER
		args []string
		want string // in the log
		code int
	}{
		{"asked for", "root", []string{"-U", "nobody"}, "Info: user id=" + nobody.Uid + " group=" + nobody.Gid + " ", 0},
		{"root", "nobody", []string{"-U", "root"}, "Info: user id=0 group=0 ", 0},
		{"PCP's", "nobody", nil, "Info: user id=" + nobody.Uid + " group=" + nobody.Gid + " ", 0},
		{"unknown", "", []string{"-U", "no such user"}, "Critical: cannot find the no such user user to switch to\n", 1},
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
				t.Errorf("log: %v, %v; want that of root", st, err)
			}
		})
	}
}

// Who is not root can become nobody else, and stays what he is without -U.
func TestBecome(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		t.Skip("root may become anybody")
	}
	if err := setUser("", "root"); err != nil {
		t.Errorf("default: %v", err)
	}
	if err := setUser(me.Username, ""); err != nil {
		t.Errorf("oneself: %v", err)
	}
	if err := setUser("root", ""); err == nil || !strings.Contains(err.Error(), "of root user") {
		t.Errorf("root: %v", err)
	}
}

// The agent finds pcp.conf's variables, but those that are set win.
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
