//go:build !race

package plugintest

import (
	"archive/zip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

const module = "github.com/gopcp/pmcd"

// modules is a directory with modules of others and all that the go command
// needs for them.
type modules struct {
	t    *testing.T
	dir  string
	root string // of our module
	env  []string
}

// newModules makes the modules
//
//	replace        replaces ours by the directory of this test
//	work/myapp     is in a workspace with it
//	v1.0.0, v1.1.0 require that version of ours, from a module cache
//	multierr       requires v1.0.0 and a later multierr than that does
func newModules(t *testing.T) *modules {
	t.Helper()
	testutil.NeedModules(t)
	root, err := filepath.Abs("../../../..")
	if err != nil {
		t.Fatal(err)
	}
	m := &modules{t: t, dir: t.TempDir(), root: root}
	cache := m.output("go", "env", "GOMODCACHE")
	m.env = append(os.Environ(),
		"GOPROXY=file://"+m.path("proxy")+",file://"+cache+"/cache/download",
		"GOMODCACHE="+m.path("modcache"), "GOBIN="+m.path("bin"),
		"GOFLAGS=-modcacherw -buildvcs=false", "GOWORK=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "CGO_ENABLED=1")

	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	m.write("proxy/"+module+"/@v/list", []byte("v1.0.0\nv1.1.0\n"))
	for _, version := range []string{"v1.0.0", "v1.1.0"} {
		m.publish(module, version, root, mod)
	}
	multierr := m.output("go", "list", "-m", "-f", "{{.Dir}}", "go.uber.org/multierr")
	if mod, err = os.ReadFile(filepath.Join(multierr, "go.mod")); err != nil {
		t.Fatal(err)
	}
	m.publish("go.uber.org/multierr", "v1.99.0", multierr, mod)
	const require = "module example.com/myapp\n\ngo 1.26\n\nrequire " + module + " "
	m.add("replace", require+"v0.0.0\n\nreplace "+module+" => "+root+"\n")
	m.add("work/myapp", "module example.com/myapp\n\ngo 1.26\n")
	m.add("v1.0.0", require+"v1.0.0\n")
	m.add("v1.1.0", require+"v1.1.0\n")
	m.add("multierr", require+"v1.0.0\n\nrequire go.uber.org/multierr v1.99.0\n")
	m.command(t, "work", "GOWORK=", "go", "work", "init", root, "./myapp")
	return m
}

func (m *modules) path(name string) string { return filepath.Join(m.dir, filepath.FromSlash(name)) }

func (m *modules) write(name string, text []byte) {
	m.t.Helper()
	path := m.path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o644); err != nil {
		m.t.Fatal(err)
	}
}

// add makes a module of testdata/myapp.
func (m *modules) add(name, mod string) {
	m.t.Helper()
	if err := os.CopyFS(m.path(name), os.DirFS("testdata/myapp")); err != nil {
		m.t.Fatal(err)
	}
	m.write(name+"/go.mod", []byte(mod))
}

// publish puts the directory into the module proxy, as go help goproxy has it.
func (m *modules) publish(path, version, dir string, mod []byte) {
	m.t.Helper()
	at := "proxy/" + path + "/@v/" + version
	m.write(at+".info", fmt.Appendf(nil, `{"Version":%q}`, version))
	m.write(at+".mod", mod)
	out, err := os.Create(m.path(at + ".zip"))
	if err != nil {
		m.t.Fatal(err)
	}
	defer out.Close()
	z := zip.NewWriter(out)
	tree := os.DirFS(dir)
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (d.Name()[0] == '.' || d.Name() == "bin" || d.Name() == "testdata"):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		b, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		w, err := z.Create(path + "@" + version + "/" + name)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
	if err := errors.Join(err, z.Close()); err != nil {
		m.t.Fatal(err)
	}
}

// output is what a command prints that runs in our module.
func (m *modules) output(words ...string) string {
	m.t.Helper()
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Dir = m.root
	cmd.Env = append(os.Environ(), "GOFLAGS=")
	out, err := cmd.Output()
	if err != nil {
		m.t.Fatalf("%v: %v", words, err)
	}
	return strings.TrimSpace(string(out))
}

// command runs a command in a module; "" is ours. Assignments before it are for
// the environment.
func (m *modules) command(t *testing.T, dir string, words ...string) {
	t.Helper()
	n := 0
	for ; strings.Contains(words[n], "="); n++ {
	}
	cmd := exec.Command(words[n], words[n+1:]...)
	cmd.Dir = m.path(dir)
	if dir == "" {
		cmd.Dir = m.root
	}
	cmd.Env = append(m.env[:len(m.env):len(m.env)], words[:n]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %v\n%s", dir, words, err, out)
	}
}
