package linux

import (
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// utRecord returns a record of utmp(5).
func utRecord(typ uint16, user string) string {
	b := make([]byte, utSize)
	binary.NativeEndian.PutUint16(b, typ)
	copy(b[utUser:utUserEnd], user)
	return string(b)
}

func TestUtmpSize(t *testing.T) {
	for goarch, want := range map[string]int{
		"arm64": 400, "loong64": 400, "s390x": 400,
		"amd64": 384, "riscv64": 384, "ppc64le": 384, "mips64le": 384, "386": 384, "arm": 384,
	} {
		if got := utSizeOf(goarch); got != want {
			t.Errorf("%s: %d bytes, want %d", goarch, got, want)
		}
	}
}

// session returns the file of a session of logind.
func session(user, state, class string) string {
	return "# This is private data. Do not parse.\nUID=1000\nUSER=" + user + "\nACTIVE=1\nIS_DISPLAY=1\nSTATE=" + state +
		"\nREMOTE=1\nTYPE=tty\nORIGINAL_TYPE=tty\nCLASS=" + class + "\nSCOPE=session-3.scope\nFIFO=/run/systemd/sessions/3.ref\nSERVICE=sshd\nLEADER=7\n"
}

// Without utmp, and if nothing writes it, the sessions of logind count.
func TestLogins(t *testing.T) {
	const none = "- - -"
	ann := session("ann", "active", "user")
	for name, tt := range map[string]struct {
		files map[string]string // below /run/systemd/sessions, or from /
		want  string            // users, roots, sessions
	}{
		"neither utmp nor logind":        {nil, "0 0 0"},
		"logind without sessions":        {map[string]string{".none/": ""}, "0 0 0"},
		"utmp and logind":                {map[string]string{"/run/utmp": utRecord(2, "reboot") + utRecord(7, "root"), "3": ann}, "1 1 2"},
		"utmp without logins":            {map[string]string{"/run/utmp": utRecord(2, "reboot"), "3": ann}, "0 0 1"},
		"utmp without records":           {map[string]string{"/run/utmp": "", "3": ann}, "1 0 1"},
		"utmp without records or logind": {map[string]string{"/run/utmp": ""}, "0 0 0"},
		"the fields that count":          {map[string]string{"3": "UID=1000\nUSER=ann\nACTIVE=1\nSTATE=active\nCLASS=user\nTYPE=tty\n"}, "1 0 1"},
		"classes of users": {map[string]string{
			"1": ann, "2": session("root", "online", "user-early"), "c3": session("bob", "opening", "user-light"),
			"c4": session("root", "active", "user-early-light"), "5": session("eve", "online", "user-incomplete"),
		}, "5 2 5"},
		"other classes": {map[string]string{
			"1": session("gdm", "active", "greeter"), "2": session("ann", "active", "manager"), "3": session("root", "active", "manager-early"),
			"4": session("root", "active", "background"), "5": session("root", "active", "background-light"),
			"6": session("ann", "active", "lock-screen"), "7": session("ann", "active", "none"), "8": ann,
		}, "1 0 1"},
		"closing":                {map[string]string{"1": session("root", "closing", "user"), "2": ann}, "1 0 1"},
		"other files":            {map[string]string{"3": ann, "3.ref": "x", ".#3a1b2": "x", "a.b/c": ""}, "1 0 1"},
		"unknown class":          {map[string]string{"2": ann, "3": session("ann", "active", "user-later")}, none},
		"no class":               {map[string]string{"2": ann, "3": "UID=1\nUSER=ann\nSTATE=active\n"}, none},
		"unknown state":          {map[string]string{"2": ann, "3": session("ann", "later", "user")}, none},
		"no state":               {map[string]string{"2": ann, "3": "USER=ann\nCLASS=user\n"}, none},
		"no user":                {map[string]string{"2": ann, "3": session("", "active", "user")}, none},
		"another format":         {map[string]string{"3": `{"user":"ann","class":"user"}`}, none},
		"empty":                  {map[string]string{"3": ""}, none},
		"a directory":            {map[string]string{"2": ann, "3/x": ""}, none},
		"a link":                 {map[string]string{"3": "-> /etc/passwd"}, none},
		"too long":               {map[string]string{"3": ann + strings.Repeat("#\n", maxSessionFile)}, none},
		"long, but not too long": {map[string]string{"3": strings.Repeat("#\n", 4000) + ann}, "1 0 1"},
	} {
		t.Run(name, func(t *testing.T) {
			files := maps.Clone(tt.files)
			for path, text := range tt.files {
				if !strings.HasPrefix(path, "/") {
					delete(files, path)
					files["run/systemd/sessions/"+path] = text
				}
			}
			r := newHarness(t, Options{Root: pmdatest.Tree(t, files)})
			var got []string
			for _, m := range []string{"nusers", "nroots", "nsessions"} {
				value := r.Values("kernel.all." + m)
				if value == "" {
					value = "-"
				}
				got = append(got, value)
			}
			if got := strings.Join(got, " "); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

// Sessions come and go between fetches, and a FIFO with the name of a session is not read.
func TestLogindChanges(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{"run/systemd/sessions/3": session("root", "active", "user")})
	r := newHarness(t, Options{Root: root})
	want := func(users, roots string) {
		t.Helper()
		r.Want(map[string]string{"kernel.all.nusers": users, "kernel.all.nroots": roots, "kernel.all.nsessions": users})
	}
	want("1", "1")
	pmdatest.WriteFile(t, root, "run/systemd/sessions/4", session("ann", "active", "user"))
	want("2", "1")
	pmdatest.WriteFile(t, root, "run/systemd/sessions/3", session("root", "closing", "user"))
	want("1", "0")
	fifo := root + "/run/systemd/sessions/5"
	if err := syscall.Mkfifo(fifo, 0o666); err != nil {
		t.Fatal(err)
	}
	want("", "")
	if err := errors.Join(os.Remove(fifo), os.Remove(root+"/run/systemd/sessions/3"), os.Remove(root+"/run/systemd/sessions/4")); err != nil {
		t.Fatal(err)
	}
	want("0", "0")
}

func FuzzSession(f *testing.F) {
	f.Add(session("root", "active", "user"))
	f.Add("USER=\nSTATE\nCLASS==\n\x00")
	f.Fuzz(func(t *testing.T, text string) {
		if counts, root, ok := parseSession([]byte(text)); !ok && counts && root || ok && !strings.Contains(text, "USER=") {
			t.Errorf("%q: %v, %v, %v", text, counts, root, ok)
		}
	})
}
