package pathtrace

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// files are what tests find: pcp may write to its directories, others to /tmp.
var files = map[string]File{
	"/":                {Mode: fs.ModeDir | 0o755},
	"/etc":             {Mode: fs.ModeDir | 0o755},
	"/bin":             {Mode: fs.ModeDir | 0o755},
	"/bin/sh":          {Mode: 0o755},
	"/run":             {Mode: fs.ModeDir | 0o755},
	"/run/pcp":         {UID: 114, GID: 114, Mode: fs.ModeDir | 0o755},
	"/var":             {Mode: fs.ModeDir | 0o755},
	"/var/run":         {Mode: fs.ModeSymlink | 0o777, Link: "/run"},
	"/var/log":         {GID: 4, Mode: fs.ModeDir | 0o775},
	"/var/log/pcp":     {UID: 114, GID: 114, Mode: fs.ModeDir | 0o775},
	"/tmp":             {Mode: fs.ModeDir | fs.ModeSticky | 0o777},
	"/tmp/own":         {Mode: fs.ModeDir | 0o700},
	"/lib":             {Mode: fs.ModeDir | 0o755},
	"/lib/pcp":         {Mode: fs.ModeDir | 0o755},
	"/lib/pcp/tmp":     {UID: 114, GID: 114, Mode: fs.ModeDir | 0o775},
	"/lib/pcp/tmp/mmv": {UID: 114, Mode: fs.ModeSymlink | 0o777, Link: "/etc"},
}

func lstat(path string) (File, error) {
	f, ok := files[path]
	if !ok {
		return f, fs.ErrNotExist
	}
	return f, nil
}

// Lines of a trace, each with the number of the thread first, and whether a finding has each text.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines string
		want  string // in the finding; "" if there is none
	}{
		{"install in a directory of root", `1 mkdir("/lib/pcp/tmp", 0755) = -1 EEXIST (File exists)
1 chown("/lib/pcp/tmp", 114, 114) = 0`, ""},
		{"install in a directory of pcp", `1 chown("/lib/pcp/tmp/pmproxy", 114, 114) = 0`, "user 114 may link /lib/pcp/tmp/pmproxy"},
		{"chmod at a descriptor", `1 fchmodat(AT_FDCWD</>, "/lib/pcp/tmp/mmv", 0775) = 0`, "/lib/pcp/tmp/mmv"},
		{"chmod that follows no link", `1 fchmodat2(AT_FDCWD</>, "/lib/pcp/tmp/mmv", 0775, AT_SYMLINK_NOFOLLOW) = 0`, ""},
		{"lchown", `1 fchownat(AT_FDCWD</>, "/lib/pcp/tmp/mmv", 1, 1, AT_SYMLINK_NOFOLLOW) = 0`, ""},
		{"chown of a descriptor", `1 fchownat(7</lib/pcp/tmp/mmv>, "", 1, 1, AT_EMPTY_PATH) = 0`, ""},
		{"below a link", `1 unlinkat(AT_FDCWD</>, "/lib/pcp/tmp/mmv/passwd", 0) = 0`, "may link /lib/pcp/tmp/mmv"},
		{"the link itself", `1 unlink("/lib/pcp/tmp/mmv") = 0`, ""},
		{"a new file", `1 openat(AT_FDCWD</>, "/run/pcp/pmcd.pid", O_WRONLY|O_CREAT|O_EXCL|O_CLOEXEC, 0444) = 3</run/pcp/pmcd.pid>`, ""},
		{"a file that may be there", `1 openat(AT_FDCWD</>, "/run/pcp/pmcd.pid", O_WRONLY|O_CREAT|O_TRUNC, 0444) = 3</run/pcp/pmcd.pid>`, "user 114 may link /run/pcp/pmcd.pid"},
		{"by root's link", `1 openat(AT_FDCWD</>, "/var/run/pcp/pmcd.pid", O_RDWR) = 3</run/pcp/pmcd.pid>`, "user 114 may link /run/pcp/pmcd.pid"},
		{"read only", `1 openat(AT_FDCWD</>, "/run/pcp/pmcd.pid", O_RDONLY) = 3</run/pcp/pmcd.pid>`, ""},
		{"a group", `1 rename("/var/log/pcp/a", "/var/log/pcp/b") = 0`, "group 4 may link /var/log/pcp"},
		{"a socket", `1 bind(3<UNIX:[1]>, {sa_family=AF_UNIX, sun_path="/run/pcp/pmcd.socket"}, 22) = 0`, ""},
		{"a socket further below", `1 bind(3<UNIX:[1]>, {sa_family=AF_UNIX, sun_path="/run/pcp/a/pmcd.socket"}, 22) = 0`, "user 114 may link /run/pcp/a"},
		{"root's directory in /tmp", `1 mkdir("/tmp/own/x", 0700) = 0`, ""},
		{"another name in /tmp", `1 mkdir("/tmp/none/x", 0700) = 0`, "all users may link /tmp/none"},
		{"a relative path", `1 chdir("/lib/pcp") = 0
1 chmod("tmp/mmv", 0775) = 0`, "may link /lib/pcp/tmp/mmv"},
		{"a working directory by a link", `1 chdir("/lib/pcp/tmp/mmv") = 0
1 unlink("passwd") = 0`, "in /etc: opened by a path: user 114 may link /lib/pcp/tmp/mmv"},
		{"a descriptor by a link", `1 openat(AT_FDCWD</>, "/lib/pcp/tmp/mmv", O_RDONLY|O_DIRECTORY) = 5</etc>
1 unlinkat(5</etc>, "passwd", 0) = 0`, "in /etc: opened by a path: user 114 may link"},
		{"a change of what was opened by a link", `1 openat(AT_FDCWD</>, "/lib/pcp/tmp/mmv", O_RDONLY|O_DIRECTORY) = 5</etc>
1 fchown(5</etc>, 114, 114) = 0`, "user 114 may link /lib/pcp/tmp/mmv"},
		{"a change of what was opened without one", `1 openat(AT_FDCWD</>, "/lib/pcp/tmp", O_RDONLY|O_NOFOLLOW|O_DIRECTORY) = 5</lib/pcp/tmp>
1 fchown(5</lib/pcp/tmp>, 114, 114) = 0`, ""},
		{"a descriptor without one", `1 openat(AT_FDCWD</>, "/lib/pcp/tmp", O_RDONLY|O_NOFOLLOW|O_DIRECTORY) = 5</lib/pcp/tmp>
1 openat(5</lib/pcp/tmp>, "mmv", O_RDONLY|O_NOFOLLOW|O_PATH) = 6</lib/pcp/tmp/mmv>
1 unlinkat(5</lib/pcp/tmp>, "mmv", 0) = 0`, ""},
		{"a name below a descriptor", `1 rename("/proc/self/fd/5/log", "/proc/self/fd/5/log.prev") = 0`, ""},
		{"more than a name below a descriptor", `1 rename("/proc/self/fd/5/a/log", "/proc/self/fd/5/log.prev") = 0`, "below a descriptor"},
		{"another user", `1 setresuid(-1, 114, -1) = 0
1 chmod("/lib/pcp/tmp/mmv", 0775) = 0`, ""},
		{"root with the file rights of another", `1 setfsuid(114) = 0
1 chmod("/lib/pcp/tmp/mmv", 0775) = 0`, ""},
		{"a failure to become another user", `1 setuid(114) = -1 EPERM (Operation not permitted)
1 chmod("/lib/pcp/tmp/mmv", 0775) = 0`, "may link"},
		{"a child of another user", `1 vfork() = 2
1 setuid(114) = 0
2 chmod("/lib/pcp/tmp/mmv", 0775) = 0`, "may link"},
		{"a child of a process that is another's", `1 setuid(114) = 0
1 clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88) = 2
2 chmod("/lib/pcp/tmp/mmv", 0775) = 0`, ""},
		{"a thread moves them all", `1 clone(child_stack=0xc0, flags=CLONE_VM|CLONE_FS|CLONE_THREAD) = 2
2 chdir("/lib/pcp") = 0
1 chmod("tmp/mmv", 0775) = 0`, "may link /lib/pcp/tmp/mmv"},
		{"a program of another user", `1 execve("/lib/pcp/tmp/x", ["x"], 0x7f /* 3 vars */) = 0`, "user 114 may link /lib/pcp/tmp/x"},
		{"a program of root", `1 execve("/bin/sh", ["sh", "-c", "x, y)"], 0x7f /* 3 vars */) = 0`, ""},
		{"a program that does not count", `1 execve("/lib/pcp/script", ["x"], 0x7f /* 3 vars */) = 0
1 chmod("/lib/pcp/tmp/mmv", 0775) = 0`, ""},
		{"and starts one that does", `1 execve("/lib/pcp/script", ["x"], 0x7f /* 3 vars */) = 0
1 execve("/bin/sh", ["x"], 0x7f /* 3 vars */) = 0
1 chmod("/lib/pcp/tmp/mmv", 0775) = 0`, "may link"},
		{"times of what a descriptor has open", `1 utimensat(0</lib/pcp/tmp/x>, NULL, NULL, 0) = 0`, ""},
		{"a bind mount", `1 mount("/lib/pcp/tmp/mmv", "/run/x", 0x7f, MS_BIND|MS_REC, NULL) = 0`, "may link /lib/pcp/tmp/mmv"},
		{"a file in /proc", `1 openat(AT_FDCWD</>, "/proc/self/oom_score_adj", O_WRONLY) = 3</proc/1/oom_score_adj>`, ""},
		{"a name with a comma and a parenthesis", `1 unlink("/lib/pcp/tmp/mmv/a\", b)") = 0`, "may link"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var calls []Call
			for line := range strings.Lines(tt.lines) {
				tid, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
				c, ok := parse(int(tid[0]-'0'), "1.0 "+rest)
				if !ok {
					t.Fatalf("not parsed: %s", line)
				}
				calls = append(calls, c)
			}
			counts := func(_ Call, program string, was bool) bool {
				return program == "/bin/sh" || was && !strings.HasPrefix(program, "/lib/pcp/s")
			}
			j := Judge{Lstat: lstat, Counts: counts}
			found := j.Judge(calls)
			if tt.want == "" && len(found) > 0 || tt.want != "" && (len(found) != 1 || !strings.Contains(found[0].String(), tt.want)) {
				t.Errorf("found %v, want %q", found, tt.want)
			}
		})
	}
}

// Calls of all threads are in the order of time.
func TestRead(t *testing.T) {
	prefix := filepath.Join(t.TempDir(), "trace")
	err := errors.Join(
		os.WriteFile(prefix+".7", []byte("1.5 unlink(\"/a\") = 0\n1.7 +++ exited with 0 +++\n"), 0o644),
		os.WriteFile(prefix+".8", []byte("1.4 vfork() = 7\n1.6 mkdirat(AT_FDCWD</root>, \"b\", 0777) = -1 EEXIST (File exists)\n1.8 exit_group(0) = ?\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	calls, err := Read(prefix)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range calls {
		got = append(got, c.String())
	}
	const want = `8 vfork() = 7; 7 unlink("/a") = 0; 8 mkdirat(AT_FDCWD</root>, "b", 0777) = -1 EEXIST (File exists); 8 exit_group(0) = ?`
	if text := strings.Join(got, "; "); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}
