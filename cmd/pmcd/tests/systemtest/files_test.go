package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// packageNames are those of all packages.
var packageNames = []string{"pmcd", "pmcd-swap", "pmcd-plugins", "pmcd-prometheus", "pmcd-openmetrics"}

// documented returns the files of the table in docs/installing.md, by kind and package: "deb
// pmcd". They are regular expressions.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs/installing.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "\n| file | packages | what |\n|---|---|---|\n")
	if !ok {
		t.Fatal("docs/installing.md has no table of files")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	files := make(map[string][]string)
	quoted := regexp.MustCompile("`(.*?)`")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) != 5 {
			t.Fatalf("docs/installing.md: %q", row)
		}
		for item := range strings.SplitSeq(strings.TrimSpace(cells[2]), ", ") {
			names, kinds := packageNames, []string{"deb", "rpm"}
			name, kind, ok := strings.Cut(item, " ")
			if ok {
				kinds = []string{strings.Trim(kind, "()")}
			}
			if name != "all" {
				names = []string{strings.Trim(name, "`")}
			}
			for _, name := range names {
				for _, kind := range kinds {
					for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
						path := strings.ReplaceAll(regexp.QuoteMeta(m[1]), "NAME", "[a-z0-9-]+")
						files[kind+" "+name] = append(files[kind+" "+name], strings.ReplaceAll(path, "PACKAGE", name))
					}
				}
			}
		}
	}
	return files
}

// The packages have the files of the table in docs/installing.md, and no others.
func TestPackageFiles(t *testing.T) {
	testutil.NeedProgram(t, "rpm")
	dir := packageDir(t)
	files := documented(t)
	if len(files) != 2*len(packageNames) {
		t.Errorf("the table is about %d packages", len(files))
	}
	for _, name := range packageNames {
		for kind, script := range map[string]string{
			"deb": "dpkg-deb --fsys-tarfile " + name + "_" + firstVersion + "_amd64.deb | tar -tf - | sed -n 's/^\\.\\(.*[^/]\\)$/\\1/p'",
			"rpm": "rpm -qpl --nosignature " + name + "-" + firstVersion + "-1.x86_64.rpm",
		} {
			cmd := exec.Command("sh", "-c", script)
			cmd.Dir = dir
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%s: %v", script, err)
			}
			has := strings.Fields(string(out))
			for _, pattern := range files[kind+" "+name] {
				re := regexp.MustCompile("^" + pattern + "$")
				n := len(has)
				has = slices.DeleteFunc(has, re.MatchString)
				if len(has) == n {
					t.Errorf("%s %s has no file %s, which is in docs/installing.md", kind, name, pattern)
				}
			}
			if len(has) != 0 {
				t.Errorf("%s %s has files that are not in docs/installing.md: %q", kind, name, has)
			}
		}
	}
}
