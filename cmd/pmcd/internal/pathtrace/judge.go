package pathtrace

import (
	"io/fs"
	"maps"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// A File is what is at a path.
type File struct {
	UID, GID uint32
	Mode     fs.FileMode
	Link     string // what it leads to, if it is a link
}

// A Judge looks for calls of root that create, change, remove, mount or execute something by a path
// on which another user may put a link.
type Judge struct {
	// Lstat says what is at a path, which has no links in it but the last name.
	Lstat func(path string) (File, error)
	// Counts says whether the calls of a process count that executes a program. If it is nil, all do.
	// counts is what holds for the process before that.
	Counts func(execve Call, program string, counts bool) bool
}

// A Finding is a call that another user could have led elsewhere.
type Finding struct {
	Call Call
	Why  string
}

func (f Finding) String() string { return f.Call.String() + ": " + f.Why }

// A thread is what the judge knows of one.
type thread struct {
	uid    int // whose rights it has for files
	counts bool
	*process
}

// A process is what its threads share.
type process struct {
	cwd string
	// entered has files and directories that were opened, or made the working directory, by a path on which there
	// may have been a link, with that reason.
	entered map[string]string
}

// Judge returns what it has found. Threads whose beginning is not in calls are root's, and their working
// directory is the root directory.
func (j *Judge) Judge(calls []Call) (found []Finding) {
	threads := make(map[int]*thread)
	for _, c := range calls {
		t := threads[c.TID]
		if t == nil {
			t = &thread{counts: true, process: &process{cwd: "/", entered: make(map[string]string)}}
			threads[c.TID] = t
		}
		switch c.Name {
		case "setuid", "setreuid", "setresuid", "setfsuid":
			t.setUser(c)
		case "clone", "clone3", "fork", "vfork":
			text, _, _ := strings.Cut(c.Ret, " ")
			if tid, err := strconv.Atoi(text); err == nil && tid > 0 {
				threads[tid] = t.child(strings.Contains(strings.Join(c.Args, " "), "CLONE_FS"))
			}
		}
		if t.uid == 0 && t.counts {
			if why := j.judge(t, c); why != "" {
				found = append(found, Finding{c, why})
			}
		}
		t.move(j, c)
		if c.Name == "execve" && c.ok() {
			program, _ := c.text(0)
			t.process = &process{t.cwd, maps.Clone(t.entered)}
			if j.Counts != nil {
				t.counts = j.Counts(c, program, t.counts)
			}
		}
	}
	return found
}

// child returns a thread that t has made.
func (t *thread) child(shares bool) *thread {
	c := *t
	if !shares {
		c.process = &process{t.cwd, maps.Clone(t.entered)}
	}
	return &c
}

// setUser changes the rights of the thread.
func (t *thread) setUser(c Call) {
	id := map[string]int{"setuid": 0, "setreuid": 1, "setresuid": 1, "setfsuid": 0}[c.Name]
	if uid, err := strconv.Atoi(c.arg(id)); err == nil && uid >= 0 && c.ok() {
		t.uid = uid
	}
}

// move records changes of the working directory.
func (t *thread) move(j *Judge, c Call) {
	if !c.ok() {
		return
	}
	switch c.Name {
	case "chdir":
		if name, ok := c.text(0); ok {
			t.cwd, _ = j.walk(t.cwd, name, true)
		}
	case "fchdir":
		if dir := described(c.arg(0)); dir != "" {
			t.cwd = dir
		}
	}
}

// A use is a path in the arguments of a call: the index of the directory, -1 if there is none, and that of
// the path.
type use struct {
	dir, path int
	follows   bool // a link that is the last name
	flags     int  // index of flags, of which AT_SYMLINK_NOFOLLOW and others change that; 0 if there are none
}

// changes has the calls that change what is at a path.
var changes = map[string][]use{
	"creat": {{-1, 0, true, 0}}, "truncate": {{-1, 0, true, 0}}, "acct": {{-1, 0, true, 0}},
	"mkdir": {{-1, 0, false, 0}}, "mkdirat": {{0, 1, false, 0}}, "mknod": {{-1, 0, false, 0}}, "mknodat": {{0, 1, false, 0}},
	"rmdir": {{-1, 0, false, 0}}, "unlink": {{-1, 0, false, 0}}, "unlinkat": {{0, 1, false, 0}},
	"rename":   {{-1, 0, false, 0}, {-1, 1, false, 0}},
	"renameat": {{0, 1, false, 0}, {2, 3, false, 0}}, "renameat2": {{0, 1, false, 0}, {2, 3, false, 0}},
	"link": {{-1, 0, false, 0}, {-1, 1, false, 0}}, "linkat": {{0, 1, false, 4}, {2, 3, false, 0}},
	"symlink": {{-1, 1, false, 0}}, "symlinkat": {{1, 2, false, 0}},
	"chmod": {{-1, 0, true, 0}}, "fchmodat": {{0, 1, true, 3}}, "fchmodat2": {{0, 1, true, 3}},
	"chown": {{-1, 0, true, 0}}, "lchown": {{-1, 0, false, 0}}, "fchownat": {{0, 1, true, 4}},
	"utime": {{-1, 0, true, 0}}, "utimes": {{-1, 0, true, 0}}, "futimesat": {{0, 1, true, 0}}, "utimensat": {{0, 1, true, 3}},
	"setxattr": {{-1, 0, true, 0}}, "lsetxattr": {{-1, 0, false, 0}},
	"removexattr": {{-1, 0, true, 0}}, "lremovexattr": {{-1, 0, false, 0}},
	"mount": {{-1, 0, true, 0}, {-1, 1, true, 0}}, "umount2": {{-1, 0, true, 1}},
}

// judge returns why another user could have led a call of root elsewhere, "" if that is not so.
func (j *Judge) judge(t *thread, c Call) string {
	switch c.Name {
	case "open":
		return j.open(t, c, use{-1, 0, true, 1})
	case "openat", "openat2":
		return j.open(t, c, use{0, 1, true, 2})
	case "chdir":
		t.enter(j, c, use{-1, 0, true, 0}, "")
	case "fchmod", "fchown", "ftruncate", "fsetxattr":
		return t.entered[described(c.arg(0))]
	case "execve":
		return j.execute(t, c)
	case "bind":
		_, rest, ok := strings.Cut(c.arg(1), `sun_path="`)
		if !ok {
			return ""
		}
		name, _, _ := strings.Cut(rest, `"`)
		_, why := j.walk(t.cwd, name, false)
		return why
	}
	for _, u := range changes[c.Name] {
		if c.Name == "mount" && u.path == 0 && !strings.Contains(c.arg(3), "MS_BIND") {
			continue
		}
		flags := ""
		if u.flags > 0 {
			flags = c.arg(u.flags)
		}
		u.follows = u.follows && !strings.Contains(flags, "NOFOLLOW") || strings.Contains(flags, "AT_SYMLINK_FOLLOW")
		if why := j.use(t, c, u); why != "" {
			return why
		}
	}
	return ""
}

// open judges a call that opens a file.
func (j *Judge) open(t *thread, c Call, u use) string {
	flags := c.arg(u.flags)
	has := func(flag string) bool { return strings.Contains(flags, flag) }
	if has("RESOLVE_NO_SYMLINKS") {
		return ""
	}
	u.follows = !has("O_NOFOLLOW") && !(has("O_CREAT") && has("O_EXCL"))
	if has("O_CREAT") || has("O_TRUNC") || has("O_WRONLY") || has("O_RDWR") {
		return j.use(t, c, u)
	}
	if c.ok() {
		t.enter(j, c, u, described(strings.Fields(c.Ret)[0]))
	}
	return ""
}

// execute judges the execution of a program: no other user may put a file in its place, either.
func (j *Judge) execute(t *thread, c Call) string {
	if !c.ok() {
		return ""
	}
	name, _ := c.text(0)
	_, why := j.walk(t.cwd, name+"/", true)
	return why
}

// enter records that a directory was opened, or made the working directory.
func (t *thread) enter(j *Judge, c Call, u use, dir string) {
	if name, ok := c.text(u.path); dir == "" && ok {
		dir, _ = j.walk(t.base(c, u), name, true)
	}
	if why := j.use(t, c, u); why != "" {
		t.entered[dir] = "opened by a path: " + why
	} else {
		delete(t.entered, dir)
	}
}

// base returns the directory where the path of a call begins.
func (t *thread) base(c Call, u use) string {
	if dir := described(c.arg(u.dir)); dir != "" {
		return dir
	}
	return t.cwd
}

// use judges a path in the arguments of a call.
func (j *Judge) use(t *thread, c Call, u use) string {
	name, ok := c.text(u.path)
	if !ok || name == "" { // the file that a descriptor has open
		return ""
	}
	base := t.base(c, u)
	if why := t.entered[base]; why != "" && !strings.HasPrefix(name, "/") {
		return "in " + base + ": " + why
	}
	_, why := j.walk(base, name, u.follows)
	return why
}

// inDescriptor is a path that begins with a directory that is open.
var inDescriptor = regexp.MustCompile(`^/proc/(self|thread-self|[0-9]+)/fd/[0-9]+(/|$)`)

// walk follows a path from base. It returns where it leads, and why it could lead elsewhere. follows is
// true if the last name may be a link that is followed.
func (j *Judge) walk(base, name string, follows bool) (to, why string) {
	dir := base
	if strings.HasPrefix(name, "/") {
		if s := inDescriptor.FindString(name); s != "" {
			rest := strings.Trim(name[len(s):], "/")
			if strings.Contains(rest, "/") || follows && rest != "" {
				return name, "below a descriptor, whose directory is not known"
			}
			return name, ""
		}
		if strings.HasPrefix(name, "/proc/") || strings.HasPrefix(name, "/sys/") {
			return name, "" // only the kernel makes links there
		}
		dir = "/"
	}
	names := strings.Split(name, "/")
	for links := 0; len(names) > 0 && links < 40; {
		n := names[0]
		names = names[1:]
		switch n {
		case "", ".":
			continue
		case "..":
			dir = path.Dir(dir)
			continue
		}
		next := path.Join(dir, n)
		f, err := j.Lstat(next)
		if last := len(names) == 0; !last || follows {
			if by := j.writer(dir, f, err == nil); by != "" && why == "" {
				why = by + " may link " + next
			}
			if err == nil && f.Mode&fs.ModeSymlink != 0 {
				links++
				names = append(strings.Split(f.Link, "/"), names...)
				if strings.HasPrefix(f.Link, "/") {
					dir = "/"
				}
				continue
			}
		}
		dir = next
	}
	return dir, why
}

// writer says which user other than root may put a link in a directory in the place of f, which exists or
// not; "" if none may.
func (j *Judge) writer(dir string, f File, exists bool) string {
	d, err := j.Lstat(dir)
	switch {
	case err != nil: // it has been removed since
		return ""
	case d.UID != 0:
		return "user " + strconv.Itoa(int(d.UID))
	case d.Mode&fs.ModeSticky != 0 && exists && f.UID == 0:
		return ""
	case d.Mode&0o020 != 0 && d.GID != 0:
		return "group " + strconv.Itoa(int(d.GID))
	case d.Mode&0o002 != 0:
		return "all users"
	}
	return ""
}
