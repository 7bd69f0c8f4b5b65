package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The file of the packages has the licences of the modules in go.mod that are linked, and of Go.
func TestCopyright(t *testing.T) {
	const root, file = "../../..", "../copyright"
	want, err := generate(root)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("etc/packaging/copyright is not what this prints: go run ./etc/packaging/licenses >etc/packaging/copyright")
	}
	// Not in all packages of Go.
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	license, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "LICENSE"))
	if os.IsNotExist(err) {
		return
	}
	m := module{path: "golang.org/x/sys", text: held.ReplaceAllString(string(license), "")}
	texts := []module{{text: "another"}}
	for _, all := range strings.Split(want, "\nLicense: ")[1:] {
		_, text, _ := strings.Cut(all, "\n")
		texts = append(texts, module{text: strings.ReplaceAll("\n"+text, "\n .", "\n")})
	}
	n := len(texts)
	if nameOf(&texts, m); len(texts) != n {
		t.Error("the licence of Go is not there")
	}
}

// Licences that differ in a word have names of their own.
func TestNameOf(t *testing.T) {
	var texts []module
	for _, c := range []struct{ path, license, text, want string }{
		{"a/one", "MIT", "may do", "MIT"},
		{"a/two", "MIT", "may  do\n", "MIT"},
		{"a/three", "MIT", "must do", "MIT-three"},
		{"a/four", "Apache-2.0", "terms, appendix", "Apache-2.0"},
		{"a/five", "Apache-2.0", "terms", "Apache-2.0"},
	} {
		if got := nameOf(&texts, module{path: c.path, license: c.license, text: c.text}); got != c.want {
			t.Errorf("%s: %s, want %s", c.path, got, c.want)
		}
	}
	if len(texts) != 3 {
		t.Errorf("%d texts", len(texts))
	}
}
