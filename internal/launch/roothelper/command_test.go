package roothelper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf"
)

// agentOf returns the agent of a line of pmcd.conf, from the kind on.
func agentOf(t *testing.T, line string) *pmcdconf.Agent {
	t.Helper()
	conf, err := pmcdconf.Parse("conf", strings.NewReader("a 1 "+line+"\n"), pmcdconf.Options{})
	must(t, err)
	return &conf.Agents[0]
}

// Each part of a command that can be code must belong to root.
func TestTrustedProgram(t *testing.T) {
	for _, name := range []string{"bash", "perl", "python3"} {
		testutil.NeedProgram(t, name)
	}
	dir := t.TempDir()
	good, bad := writeExecutable(t, filepath.Join(dir, "good")), writeExecutable(t, filepath.Join(dir, "bad"))
	must(t, os.Chmod(bad, 0o777))
	open := filepath.Join(dir, "open")
	must(t, os.Mkdir(open, 0o755))
	must(t, os.Chmod(open, 0o777))
	must(t, syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o622))
	must(t, syscall.Mkfifo(filepath.Join(open, "fifo"), 0o622))
	for name, text := range map[string]string{
		"byBad": "#! " + bad + " -x\n", "byEnv": "#!/usr/bin/env theirs\n", "byGood": "#!" + good + "\n",
		"byModule": "#!/usr/bin/env -S python3 -m pmdax\n",
		"bySh":     "#!/bin/sh " + bad + "\n", "byByBad": "#!" + dir + "/byBad\n",
		"byItself": "#!" + dir + "/byItself byItself " + dir + "/byItself\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	must(t, os.WriteFile(filepath.Join(open, "theirs"), []byte("#!/bin/sh\n"), 0o755))
	t.Setenv("PATH", os.Getenv("PATH")+":"+open)
	// The working directory is writable by others, as that of pmcd.
	wd := filepath.Join(dir, "wd")
	writeExecutable(t, filepath.Join(wd, "here"))
	must(t, os.Chmod(wd, 0o777))
	t.Chdir(wd)
	const theirs = "is writable by all users"
	for _, c := range []struct{ line, want string }{
		{"pipe binary GOOD -d 3", ""},
		{"pipe binary BAD", theirs},
		{"pipe binary theirs", theirs},
		{"pipe binary OPEN/none", "open " + theirs}, // no further: it may be on a file system that does not answer
		{"pipe binary nosuchprogramatall", "not found"},
		{"pipe binary DIR/byBad", theirs},
		{"pipe binary DIR/byByBad", theirs},
		{"pipe binary DIR/byEnv", theirs},
		{"pipe binary DIR/bySh", theirs},
		{"pipe binary DIR/byGood", ""},
		{"socket inet 1234 BAD", theirs},
		{"socket inet 1234", ""},

		// Anything after the program may be what it executes.
		{"pipe binary sh GOOD BAD", theirs},
		{"pipe binary sh -e BAD", theirs},
		{"pipe binary nice -n 1 BAD", theirs},
		{"pipe binary nice -n 1 theirs", theirs},
		{"pipe binary nice -n 1 cat", ""},
		{"pipe binary GOOD --script=BAD", theirs},
		{"pipe binary GOOD -fBAD", theirs},
		{"pipe binary GOOD -f=BAD", theirs},
		{"pipe binary GOOD LD_PRELOAD=BAD", theirs},
		{"pipe binary GOOD --script=GOOD -fGOOD X=GOOD", ""},
		{"pipe binary sh X/y=/etc/passwd", "wd " + theirs},
		{"pipe binary sh OPEN/none", theirs}, // others can create it
		{"pipe binary sh /tmp/no.such.script", theirs},
		{"pipe binary sh /no/such/script", ""},
		{"pipe binary sh GOOD/none", ""},
		{"pipe binary GOOD -I OPEN", theirs},
		{"pipe binary GOOD -I DIR", ""},
		{"pipe binary sh here", "wd " + theirs},
		{"pipe binary sh ./none", "wd " + theirs},
		{"pipe binary sh -c \"exec /bin/cat\"", "wd " + theirs},

		// Python imports modules from the working directory, unless it has a script in another
		// directory. A script that does not exist there may be created after the check.
		{"pipe binary python3 -m pmdax", "wd " + theirs},
		{"pipe binary python3 -um pmdax", "wd " + theirs},
		{"pipe binary python3 -mpmdax", "wd " + theirs},
		{"pipe binary python3 -W ignore -X dev -c code", "wd " + theirs},
		{"pipe binary python3 --check-hash-based-pycs always -m pmdax", "wd " + theirs},
		{"pipe binary nice -n 1 python3 -m pmdax", "wd " + theirs},
		{"pipe binary sh -c \"exec python3 -m pmdax\"", "wd " + theirs},
		{"pipe binary DIR/byModule", "wd " + theirs},
		{"pipe binary python3 none.py", "wd " + theirs},
		{"pipe binary python3 -u GOOD -c conf -m 3", ""},
		{"pipe binary python3 -Wignore GOOD -c conf", ""},
		{"pipe binary GOOD -m python", ""},
		{"pipe binary sh none", "wd " + theirs},
		{"pipe binary perl -w none", "wd " + theirs},
		{"pipe binary perl -Mstrict none", "wd " + theirs},
		{"pipe binary nice -n 1 bash -e none", "wd " + theirs},
		{"pipe binary sh -c \"perl none\"", "wd " + theirs},
		{"pipe binary sh -ec cat", ""},
		{"pipe binary perl -w GOOD -c conf", ""},
		{"pipe binary sh -c \"/bin/true BAD\"", theirs},
		{"pipe binary sh -c \"/bin/true;BAD\"", theirs},
		{"pipe binary sh -c \"/bin/true && theirs\"", theirs},
		{"pipe binary sh -c \"/bin/cat GOOD -x 1:2\"", ""},
		{"pipe binary GOOD -I/usr/lib:OPEN", theirs},
		{"pipe binary env PYTHONPATH=/usr/lib:OPEN GOOD", theirs},

		// So may the interpreter of a script after it.
		{"pipe binary nice -n 1 DIR/byBad", theirs},
		{"pipe binary nice -n 1 DIR/byByBad", theirs},
		{"pipe binary nice -n 1 DIR/byGood", ""},
		{"pipe binary nice -n 1 DIR/byItself", ""},
		{"pipe binary sh -fhere", "wd " + theirs},

		// Anything but a file is not executed, as long as only root can replace it.
		{"pipe binary GOOD /dev/null", ""},
		{"pipe binary GOOD DIR/fifo", ""},
		{"pipe binary GOOD OPEN/fifo", theirs},

		// A socket agent is told where to listen.
		{"socket unix OPEN/socket GOOD -d 3 -u OPEN/socket", ""},
		{"socket unix OPEN/socket GOOD -uOPEN/socket", ""},
		{"socket unix OPEN/socket GOOD -u OPEN/other", theirs},
		{"pipe binary GOOD -u OPEN/socket", theirs},

		// Log files are written and not executed.
		{"pipe binary GOOD -l BAD", ""},
		{"pipe binary GOOD -d 3 -l OPEN/log", ""},
		{"pipe binary GOOD -lOPEN/log --log=OPEN/log --log OPEN/log", ""},
		{"pipe binary python3 GOOD -l OPEN/log", ""},
		{"pipe binary perl GOOD -U root -l OPEN/log", ""},
		{"pipe binary GOOD -l GOOD BAD", theirs},
		{"pipe binary bash -l BAD", theirs},
		{"pipe binary /bin/bash -e -l BAD", theirs},
		{"pipe binary nice -n 1 perl5.36 -l BAD", theirs},
		{"pipe binary perl -lBAD", theirs},

		{"dso x_init GOOD", ""},
		{"dso x_init BAD", theirs},
	} {
		t.Run(c.line, func(t *testing.T) {
			a := agentOf(t, strings.NewReplacer("GOOD", good, "BAD", bad, "OPEN", open, "DIR", dir).Replace(c.line))
			program, err := checkProgram(a, testOwner)
			if argv := a.Argv; err == nil && len(argv) > 0 && (!filepath.IsAbs(program) || filepath.Base(program) != filepath.Base(argv[0])) {
				t.Errorf("the program is %q", program)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// When there are too many open files the interpreter of a script cannot be read.
// That is an error, after which the start is tried again. The script is not taken
// for a program without an interpreter, nor for an untrusted one.
func TestTrustedUnread(t *testing.T) {
	dir := t.TempDir()
	bad := writeExecutable(t, filepath.Join(dir, "bad"))
	must(t, os.Chmod(bad, 0o777))
	script := filepath.Join(dir, "script")
	must(t, os.WriteFile(script, []byte("#!"+bad+"\n"), 0o755))
	withoutDescriptors(t, 0, func() {
		err := checkExecutable(script, testOwner)
		var u *Untrusted
		if !errors.Is(err, syscall.EMFILE) || errors.As(err, &u) {
			t.Errorf("got %v", err)
		}
	})
}

// Directories in which others can create a program, now or later, come last.
func TestSortPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"open": 0o777, "good": 0o755, "sticky": 0o777 | os.ModeSticky} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		must(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	list := strings.ReplaceAll("D/good:D/open::.:D/none:D/sticky:D/open/none:/usr/bin", "D", dir)
	want := strings.ReplaceAll("D/good:D/none:/usr/bin:D/open::.:D/sticky:D/open/none", "D", dir)
	if got, rest := sortPath(list, testOwner); got != want || len(rest) != 5 {
		t.Errorf("got %s and %q, want %s", got, rest, want)
	}
}

// With the arguments that the Install scripts of PCP's PMDAs write, agents get
// root's rights, provided that the configuration files in them belong to root. The
// working directory is that of pmcd, which belongs to its user.
func TestTrustedInstall(t *testing.T) {
	testutil.NeedProgram(t, "python3")
	dir := t.TempDir()
	pmda := writeExecutable(t, filepath.Join(dir, "pmdas/x/pmdax"))
	conf := writeExecutable(t, filepath.Join(dir, "pmdas/x/x.conf"))
	queue := filepath.Join(dir, "mqueue")
	must(t, os.Mkdir(queue, 0o700))
	log := filepath.Join(dir, "log")
	must(t, os.Mkdir(log, 0o755))
	must(t, os.Chmod(log, 0o777))
	t.Chdir(log)
	for _, args := range []string{
		"-d 253 -l LOG/x.log",           // most
		"-DDBROOT -d 253 -U root",       // denki, weblog, with PCP_DEBUG
		"-P 80 -L server-status?auto",   // apache
		"-d 44 -r120 router:0 router:1", // cisco
		"-d 34 -U root CONF",            // logger
		"-d 22 -r df.* QUEUE",           // mailq
		"-d 22 -b 1day,2days QUEUE",
		"/proc/sys/net/", // netfilter
		"/proc/sys/",
		"-R 5",            // perfevent and others
		"-d 46 /dev/tty",  // roomtemp
		"-d 46 /dev/null", // the terminal may not exist
		"-c CONF",
		"-d 32 -I 120 -t 20 -D 1 CONF",          // shping
		"-d 26 PMDA -h localhost -x -t 10 CONF", // summary
		"-d 10 -T 60 -N 12 -I 4323 -A allow:*:5 -A disallow:*", // trace
		"-d 22 -U root -D 0 -t 15 -n 20 -S 80 CONF",            // weblog
		"--inject CONF", // lmsensors
	} {
		t.Run(args, func(t *testing.T) {
			args := strings.NewReplacer("LOG", log, "CONF", conf, "QUEUE", queue, "PMDA", pmda).Replace(args)
			for _, line := range []string{"pipe binary " + pmda + " " + args, "pipe binary python3 " + pmda + " " + args, "socket inet 2080 " + pmda + " " + args} {
				if _, err := checkProgram(agentOf(t, line), testOwner); err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		})
	}
}

// The interpreter of a script without one is the shell.
func TestInterpreter(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for text, want := range map[string]string{
		"#!/bin/perl -w\n": "/bin/perl -w", "#! \n/bin/perl": "/bin/sh", "echo": "/bin/sh", "": "/bin/sh", "\x7fELF\x02": "",
	} {
		must(t, os.WriteFile(file, []byte(text), 0o755))
		words, err := interpreter(file)
		if got := strings.Join(words, " "); got != want || err != nil {
			t.Errorf("%q: got %q, %v, want %q", text, got, err, want)
		}
	}
}
