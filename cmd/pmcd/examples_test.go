package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// withoutExample are packages, and directories of them, that other packages of the module
// import and that need no example, with reasons.
var withoutExample = map[string]string{
	"agents/builtin": "each is used as agents/pmda's example shows",
	"bench":          "a program and its parts",
	"cmd":            "programs and their parts",
	"docs":           "tests of documents",
	"etc":            "files",
	"pdu/pdutest":    "for tests of this module",
}

// Each package that is not internal has an example, which go doc's readers see and the
// compiler checks.
func TestExamples(t *testing.T) {
	example := regexp.MustCompile(`(?m)^func Example`)
	ours, _ := listPackages(t)
	used := make(map[string]bool)
	for name, p := range ours {
		if p.Name == "main" || slices.Contains(strings.Split(name, "/"), "internal") {
			continue
		}
		exempt := false
		for dir := range withoutExample {
			if name == dir || strings.HasPrefix(name, dir+"/") {
				exempt, used[dir] = true, true
			}
		}
		files, err := filepath.Glob(filepath.Join("../..", name, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			return example.Match(text)
		})
		if !has && !exempt {
			t.Errorf("%s has no example", name)
		}
	}
	for dir := range withoutExample {
		if !used[dir] {
			t.Errorf("withoutExample has %s, which has no package", dir)
		}
	}
}
