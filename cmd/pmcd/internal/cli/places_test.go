package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// makePlace makes a directory, MODE PATH, or a link, PATH->TARGET.
func makePlace(t *testing.T, root, s string) {
	t.Helper()
	var err error
	if path, target, ok := strings.Cut(s, "->"); ok {
		err = os.Symlink(target, filepath.Join(root, path))
	} else {
		text, path, _ := strings.Cut(s, " ")
		var mode uint64
		if mode, err = strconv.ParseUint(text, 8, 32); err == nil {
			err = os.MkdirAll(filepath.Join(root, path), 0o777)
		}
		if err == nil { // whatever the umask is, and with the sticky bit
			err = syscall.Chmod(filepath.Join(root, path), uint32(mode))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The socket and the log go where this user can write and no other user can
// interfere, and pmcd starts without them if there is no such place.
func TestPlaceFiles(t *testing.T) {
	// In have MODE PATH is a directory below ROOT, and PATH->TARGET a link.
	tests := []struct {
		name        string
		uid         int // relative to ours
		have        []string
		env         map[string]string
		socket, log string // "" is none and "-"
		warn        string // part of the warnings
	}{
		{"in TMPDIR", 0, []string{"1777 tmp"}, map[string]string{"TMPDIR": "ROOT/tmp"}, "tmp/pcp-UID/pmcd.socket", "tmp/pcp-UID/pmcd.log", ""},
		{"it is there", 0, []string{"1777 tmp", "700 tmp/pcp-UID"}, map[string]string{"TMPDIR": "ROOT/tmp"}, "tmp/pcp-UID/pmcd.socket", "tmp/pcp-UID/pmcd.log", ""},
		{"XDG_RUNTIME_DIR comes first", 0, []string{"1777 tmp", "700 xdg"}, map[string]string{"TMPDIR": "ROOT/tmp", "XDG_RUNTIME_DIR": "ROOT/xdg"}, "xdg/pcp/pmcd.socket", "xdg/pcp/pmcd.log", ""},
		{"XDG_RUNTIME_DIR is gone", 0, []string{"1777 tmp"}, map[string]string{"TMPDIR": "ROOT/tmp", "XDG_RUNTIME_DIR": "ROOT/xdg"}, "tmp/pcp-UID/pmcd.socket", "tmp/pcp-UID/pmcd.log", ""},
		{"PCP_LOG_DIR", 0, []string{"1777 tmp"}, map[string]string{"TMPDIR": "ROOT/tmp", "PCP_LOG_DIR": "ROOT/logs"}, "tmp/pcp-UID/pmcd.socket", "logs/pmcd.log", ""},
		{"XDG_RUNTIME_DIR is not absolute", 0, []string{"1777 tmp"}, map[string]string{"TMPDIR": "ROOT/tmp", "XDG_RUNTIME_DIR": "xdg"}, "tmp/pcp-UID/pmcd.socket", "tmp/pcp-UID/pmcd.log", ""},
		{"nowhere", 0, nil, map[string]string{"TMPDIR": "ROOT/tmp"}, "", "", "no such file"},
		{"another user's directory", 1, []string{"1777 tmp", "700 tmp/pcp-UID"}, map[string]string{"TMPDIR": "ROOT/tmp"}, "", "", "tmp/pcp-UID: "},
		{"a link to one of ours", 0, []string{"1777 tmp", "700 mine", "tmp/pcp-UID->ROOT/mine"}, map[string]string{"TMPDIR": "ROOT/tmp"}, "", "", "not a directory"},
		{"a link to nowhere", 0, []string{"1777 tmp", "tmp/pcp-UID->ROOT/none"}, map[string]string{"TMPDIR": "ROOT/tmp"}, "", "", "not a directory"},
		{"others can write to it", 0, []string{"1777 tmp", "777 tmp/pcp-UID"}, map[string]string{"TMPDIR": "ROOT/tmp"}, "", "", "others can write"},
		{"others can replace it", 0, []string{"777 tmp"}, map[string]string{"TMPDIR": "ROOT/tmp"}, "", "", "others can replace"},
		{"a link to TMPDIR is good", 0, []string{"1777 real", "tmp->ROOT/real"}, map[string]string{"TMPDIR": "ROOT/tmp"}, "tmp/pcp-UID/pmcd.socket", "tmp/pcp-UID/pmcd.log", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			root, uid := t.TempDir(), os.Geteuid()+tt.uid
			expand := strings.NewReplacer("ROOT", root, "UID", strconv.Itoa(uid)).Replace
			for _, s := range tt.have {
				makePlace(t, root, expand(s))
			}
			opt := new(Options)
			opt.PlaceFiles(root, uid, func(name string) string { return expand(tt.env[name]) })
			socket, log := "", "-"
			if tt.socket != "" {
				socket, log = filepath.Join(root, expand(tt.socket)), filepath.Join(root, expand(tt.log))
			}
			if opt.Socket != socket || opt.Log != log {
				t.Errorf("got %s, %s\nwant %s, %s", opt.Socket, opt.Log, socket, log)
			}
			warnings := fmt.Sprint(opt.Warnings)
			if tt.warn == "" && warnings != "[]" || !strings.Contains(warnings, expand(tt.warn)) {
				t.Errorf("warnings %q, want %q", warnings, tt.warn)
			}
			if tt.socket != "" {
				fi, err := os.Lstat(filepath.Dir(socket))
				if err != nil || fi.Mode() != os.ModeDir|0o700 {
					t.Errorf("%v, %v, want a directory that is this user's alone", fi.Mode(), err)
				}
			}
		})
	}
}

func TestHostPaths(t *testing.T) {
	env := map[string]string{}
	getenv := func(name string) string { return env[name] }
	if got := HostPaths(getenv); len(got) != 0 {
		t.Errorf("without PMCD_HOST_ROOT: %v", got)
	}
	env["PMCD_HOST_ROOT"], env["XFS_STATSPATH"] = "/host/", "/mine"
	got := HostPaths(getenv)
	want := map[string]string{
		"LINUX_STATSPATH": "/host", "PROC_STATSPATH": "/host", "JBD2_STATSPATH": "/host", "CIFS_STATSPATH": "/host",
		"KVM_DEBUGFS_PATH": "/host/sys/kernel/debug", "KVM_TRACEFS_PATH": "/host/sys/kernel/debug/tracing",
		"KVM_LOCKDOWN_PATH": "/host/sys/kernel/security/lockdown", "NFSCLIENT_MOUNTSTATS_PATH": "/host/proc/1/mountstats",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
