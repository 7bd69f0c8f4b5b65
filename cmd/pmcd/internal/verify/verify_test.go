package verify

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/open"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pmcdconf"
)

// files makes files in a directory of their own, which becomes the current one.
// Scripts can be executed.
func files(t *testing.T, texts map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("PCP_TLSCONF_PATH", os.DevNull)
	for name, text := range texts {
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o666)
		if strings.HasPrefix(text, "#!") || strings.HasPrefix(text, "echo") {
			mode = 0o777
		}
		if err := os.WriteFile(name, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// verifyArgs verifies what a command line names. It returns the exit code.
func verifyArgs(t *testing.T, stderr io.Writer, args ...string) int {
	t.Helper()
	opt, err := cli.Parse(args)
	if err != nil {
		t.Fatal(err)
	}
	return Run(opt, opt.Complete(os.Getenv), open.Builtin, stderr)
}

// All that is wrong is said at once, each with its place. Only what C pmcd
// rejects, and what would keep ours from starting, is an error.
func TestVerify(t *testing.T) {
	const pmns, conf = "root { a }\na { b 2:0:0 }\n", "pmcd 2 dso pmcd_init /none\n"
	tests := []struct {
		name  string
		files map[string]string // "conf" and "pmns" have a good one by default
		code  int
		want  string
	}{
		{"all is well", map[string]string{
			"conf": conf + "a 3 pipe binary /bin/true -d 3\nb 4 socket inet 4321 true\nc 5 socket unix /tmp/c\n" +
				"d 6 pipe binary ./script\ne 7 pipe binary ./env\nf 8 socket ipv6 http\n[access]\nallow * : all;\n",
			"script": "#! /bin/sh -e\n", "env": "#!/usr/bin/env sh\n",
			"labels/a": `{"a":1}`, "labels/optional/b": `{"b":{"c":2}}`, "labels.conf": "machineid_hash=sha256\n",
		}, 0, ""},
		{"mistakes that C pmcd rejects", map[string]string{
			"conf": "x y\npmcd 2 dso pmcd_init /none\nz 511 pipe binary /bin/true\n",
		}, 1, `pmcd config[line 1]: Error: expected domain number for "x" agent
	at conf:1:3
	x y
	  ^
pmcd config[line 3]: Error: Illegal domain number (511) for "z" agent
	at conf:3:3
	z 511 pipe binary /bin/true
	  ^
`},
		{"mistakes that C pmcd skips", map[string]string{"conf": "x y\n" + conf}, 0,
			`pmcd config[line 1]: Error: expected domain number for "x" agent
	at conf:1:3
	x y
	  ^
`},
		{"access rules", map[string]string{
			"conf":        conf + "[access]\nallow * : fetch;\n",
			"conf.access": "\nallow bob all;\n",
		}, 1, `access config[line 2]: Error: ',' or ':' expected after "bob"
	at conf.access:2:11
	allow bob all;
	          ^
`},
		{"mistakes behind one that C pmcd stops at", map[string]string{
			"conf":        conf + "a 3 dso a_init a.so\nb 4 pipe\nc 5 pipe binary /bin/true\n[access]\nallow * : nothing;\n",
			"conf.access": "allow bob all;\n",
		}, 1, `pmcd config[line 2]: Error: path "a.so" to PMDA is not absolute
	at conf:2:16
	a 3 dso a_init a.so
	               ^
pmcd config[line 3]: Error: pipe PDU type expected (` + "`binary'" + `)
	at conf:3:9
	b 4 pipe
	        ^
pmcd config[line 6]: Error: bad access specifier
	at conf:6:11
	allow * : nothing;
	          ^
access config[line 1]: Error: ',' or ':' expected after "bob"
	at conf.access:1:11
	allow bob all;
	          ^
`},
		{"access rules behind a last agent that is wrong", map[string]string{
			"conf": conf + "b x\n[access]\nallow * : nothing;\n",
		}, 1, `pmcd config[line 2]: Error: expected domain number for "b" agent
	at conf:2:3
	b x
	  ^
pmcd config[line 4]: Error: bad access specifier
	at conf:4:11
	allow * : nothing;
	          ^
`},
		{"nothing", map[string]string{"conf": "# nothing\n"}, 1,
			"Error: No PMDAs found in the configuration file \"conf\"\n"},
		{"no file", map[string]string{"conf": ""}, 1, "pmcd verify conf: No such file or directory\n"},
		{"programs", map[string]string{
			"conf": "a 1 pipe binary /none -x\n  b 2 pipe binary nonesuch\n\n\"c d\" 3 pipe binary ./data\n" +
				"e 4 socket inet 99 ./dir\nf 5 pipe binary ./script\ng 6 pipe binary ./empty\nh 7 pipe binary ./env\ni 8 pipe binary ./none\n",
			"data": "x", "dir/x": "x", "script": "#!/none -x\n", "empty": "#!\n", "env": "#!/usr/bin/env nonesuch\n", "none": "echo x",
		}, 0, `conf:1:1: Warning: agent "a": cannot run /none: no such file or directory
conf:2:3: Warning: agent "b": there is no nonesuch in PATH (/usr/bin:/bin)
conf:4:1: Warning: agent "c d": cannot run ./data: permission denied
conf:5:1: Warning: agent "e": cannot run ./dir: is a directory
conf:6:1: Warning: agent "f": cannot run ./script: its interpreter is /none: no such file or directory
conf:8:1: Warning: agent "h": cannot run ./env: its interpreter is nonesuch: executable file not found in $PATH
`},
		{"built-in agents for programs", map[string]string{
			"conf": "xfs 11 pipe binary /none/pmdaxfs -d 11\nkvm 95 pipe binary /none/pmdakvm -x -d 95\n" +
				"jbd2 122 pipe binary /none/pmdajbd2 -d x\nproc 4 pipe binary /none/pmdaproc\n" +
				"nfsclient 62 pipe binary /none/python3 /none/pmdanfsclient.python -x\n",
		}, 0, `conf:1:1: Note: agent "xfs" is built in: /none/pmdaxfs does not exist
conf:2:1: Note: agent "kvm" is built in: /none/pmdakvm does not exist
conf:2:1: Warning: agent "kvm": invalid option -- 'x' is ignored
conf:3:1: Note: agent "jbd2" is built in: /none/pmdajbd2 does not exist
conf:3:1: Warning: agent "jbd2": -d requires numeric domain number
conf:4:1: Warning: agent "proc": cannot run /none/pmdaproc: no such file or directory
conf:5:1: Note: agent "nfsclient" is built in: /none/python3 does not exist
conf:5:1: Warning: agent "nfsclient": invalid option -- 'x' is ignored
`},
		{"sockets", map[string]string{
			"conf": "a 1 socket inet 65536\nb 2 socket ipv6 0\nc 3 socket unix /none/x\nd 4 socket unix /" + strings.Repeat("x", 107) + "\n",
		}, 0, `conf:1:1: Warning: agent "a": there is no port 65536
conf:2:1: Warning: agent "b": there is no port 0
conf:3:1: Warning: agent "c": no directory for the socket: stat /none: no such file or directory
conf:4:1: Warning: agent "d": the name of the socket has 108 bytes, and can have 107
`},
		{"an agent beside a mistake", map[string]string{"conf": "a 1 pipe binary /none\nx y\n"}, 1,
			`pmcd config[line 2]: Error: expected domain number for "x" agent
	at conf:2:3
	x y
	  ^
conf:1:1: Warning: agent "a": cannot run /none: no such file or directory
`},
		{"no PMNS", map[string]string{"pmns": ""}, 1, "Error: Cannot open \"pmns\": no such file or directory\n"},
		{"a mistake in the PMNS", map[string]string{"pmns": "root { a }\na { b 2:0 }\n"}, 1,
			"pmns:2:7: Error: Illegal PMID\n"},
		// Root runs pmcd -v, and others may be able to change the file. No command is executed.
		{"a command in the PMNS", map[string]string{"pmns": "root { a }\n#shell 'exit 1'\n"}, 0,
			"pmns:2: Warning: -v executes no command of #shell, so it does not check the name space from here on\n"},
		{"a mistake before a command in the PMNS", map[string]string{"pmns": "root { a }\na { b 2:0 }\n#shell 'exit 1'\n"}, 1,
			"pmns:2:7: Error: Illegal PMID\n"},
		{"labels", map[string]string{
			"labels/a": "{\n \"a\":1,\n \"b\" 2}", "labels/b": `[1]`, "labels/c": `{"a b":1}`, "labels.conf": "\nhash=none\n",
		}, 0, "labels/a:3:6: Warning: invalid character '2' after object key; the file is ignored\n" +
			"labels/b: Warning: not a JSON object; the file is ignored\n" +
			"Warning: labels/c: bad label name \"a b\", which is left out\n" +
			"labels.conf:2: Warning: \"hash=none\" is ignored\n"},
		{"all of it", map[string]string{"conf": "x y\n", "pmns": "root { a }\n", "labels/b": "{"}, 1,
			`pmcd config[line 1]: Error: expected domain number for "x" agent
	at conf:1:3
	x y
	  ^
pmns:1:8: Error: Cannot find definition for non-terminal node "a" in name space
labels/b:1:1: Warning: unexpected end of JSON input; the file is ignored
`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			texts := map[string]string{"pmns": pmns, "conf": conf}
			for name, text := range tt.files {
				if texts[name] = text; text == "" {
					delete(texts, name)
				}
			}
			files(t, texts)
			t.Setenv("PATH", "/usr/bin:/bin")
			t.Setenv("PCP_SYSCONF_DIR", ".")
			t.Setenv("PCP_CONF", "/no/such/file")
			var stderr strings.Builder
			if code := verifyArgs(t, &stderr, "-v", "-c", "conf", "-n", "pmns"); code != tt.code || stderr.String() != tt.want {
				t.Errorf("exit code %d, want %d; got\n%s\nwant\n%s", code, tt.code, stderr.String(), tt.want)
			}
		})
	}
}

// What is compiled in needs no file.
func TestVerifyEmbedded(t *testing.T) {
	var stderr strings.Builder
	if code := verifyArgs(t, &stderr, "-v", "--embedded"); code != 0 || stderr.Len() > 0 {
		t.Errorf("exit code %d\n%s", code, stderr.String())
	}
}

// The entry of a dso line is looked for in the file, which is not loaded.
func TestVerifyDSO(t *testing.T) {
	if testing.Short() {
		t.Skip("builds plugins with flags of their own: make ci")
	}
	make := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	dir := t.TempDir()
	file := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(file("x.c"), []byte("void other(void);\nint simple_data;\nvoid simple_init(void) { other(); }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	make("gcc", "-shared", "-fPIC", "-o", file("x.so"), file("x.c"))
	args := []string{"build", "-buildmode=plugin"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	make("go", append(args, "-o", file("p.so"), "../../../../internal/launch/goplugin/testdata/plugin")...)
	make("go", append(args, "-ldflags=-s", "-o", file("n.so"), "../../../../internal/launch/goplugin/testdata/panics")...)
	make("go", append(args, "-trimpath", "-o", file("t.so"), "../../../../internal/launch/goplugin/testdata/panics")...)

	v := &verifier{builtin: open.BuiltinAgents{"simple_init": {}}}
	for _, tt := range []struct{ path, entry, want string }{
		{"x.so", "simple_init", ""},
		{"x.so", "simple_data", "has no function simple_data"},
		{"x.so", "other", "has no function other"},
		{"x.so", "main", "has no function main"},
		{"p.so", "simple_init", ""},
		{"p.so", "other_init", ""}, // its type is not in the file
		{"p.so", "nonesuch_init", "has no function NonesuchInit or NewAgent"},
		{"p.so", "println", "has no function Println or NewAgent"}, // of package fmt
		{"n.so", "anything", ""},
		{"t.so", "anything", "is built with -trimpath=true, pmcd with no -trimpath"},
		{"x.c", "simple_init", "not a shared object: not an ELF file"},
		{"none.so", "pmcd_init", ""},
		{"none.so", "simple_init", ""}, // is built in
		{"none.so", "linux_init", "cannot find the DSO"},
		{"", "simple_init", ""},
		{"", "linux_init", "there is no built-in agent with the entry point linux_init"},
		{".", "simple_init", "not a shared object but a directory"},
	} {
		t.Run(tt.entry+" of "+tt.path, func(t *testing.T) {
			path := tt.path
			if path != "" {
				path = file(path)
			}
			errs := v.agent(&pmcdconf.Agent{Kind: pmcdconf.DSO, Entry: tt.entry, Path: path})
			switch {
			case tt.want == "" && len(errs) == 0:
			case tt.want != "" && len(errs) == 1 && strings.Contains(errs[0].Error(), tt.want):
			default:
				t.Errorf("%s of %s: got %v, want %q", tt.entry, tt.path, errs, tt.want)
			}
		})
	}
	v.noDSO = errors.New("a static build")
	for path, want := range map[string]string{file("x.so"): file("x.so") + ": a static build", file("none.so"): "", file("p.so"): ""} {
		if err := v.dso(&pmcdconf.Agent{Kind: pmcdconf.DSO, Entry: "simple_init", Path: path}); err == nil && want != "" || err != nil && err.Error() != want {
			t.Errorf("%s in a static build: got %v, want %q", path, err, want)
		}
	}
}

// Why PMCD_TRUST_AGENTS is ignored is a warning of -v, and not of --verify: PCP's script
// prints what that says at each start.
func TestVerifyTrust(t *testing.T) {
	testutil.NeedRoot(t)
	files(t, map[string]string{"conf": "pmcd 2 dso pmcd_init /none\n", "pmns": "root { a }\na { b 2:0:0 }\n"})
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("PCP_USER", "daemon")
	t.Setenv("PCP_SYSCONFIG_DIR", dir)
	t.Setenv("PMCD_TRUST_AGENTS", "1")
	for arg, want := range map[string]string{
		"-v":       "Warning: PMCD_TRUST_AGENTS=1 in the environment is ignored: set it in " + dir + "/pmcd\n",
		"--verify": "",
	} {
		var stderr strings.Builder
		if code := verifyArgs(t, &stderr, arg, "-c", "conf", "-n", "pmns"); code != 0 || !strings.Contains(stderr.String(), want) || want == "" && stderr.Len() > 0 {
			t.Errorf("%s: exit code %d\n%s\nwant\n%s", arg, code, stderr.String(), want)
		}
	}
}

// The name space is read with the rights of the user that pmcd becomes, as pmcd reads it.
func TestVerifyNamesAsUser(t *testing.T) {
	testutil.NeedRoot(t)
	files(t, map[string]string{"conf": "pmcd 2 dso pmcd_init /none\n", "pmns": "root { a }\na { b 2:0:0 }\n"})
	if err := os.Chmod("pmns", 0o600); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]string{"root": "", "daemon": "permission denied"} {
		var stderr strings.Builder
		code := verifyArgs(t, &stderr, "--verify", "-U", user, "-c", "conf", "-n", "pmns")
		if (code != 0) != (want != "") || !strings.Contains(stderr.String(), want) || want == "" && stderr.Len() > 0 {
			t.Errorf("as %s: exit code %d\n%s", user, code, stderr.String())
		}
	}
}
