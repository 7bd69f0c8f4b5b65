package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The test program is of this module, too. The list has its parts, and is the same twice.
func TestWrite(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var one, two bytes.Buffer
	if err := write(&one, "1.2.3+git.abc", []string{self, self}); err != nil {
		t.Fatal(err)
	}
	if err := write(&two, "1.2.3+git.abc", []string{self}); err != nil {
		t.Fatal(err)
	}
	if one.String() != two.String() {
		t.Errorf("%s\nand\n%s", &one, &two)
	}
	var got bom
	if err := json.Unmarshal(one.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != "CycloneDX" || got.SpecVersion != "1.5" || got.Metadata.Component.PURL != "pkg:golang/github.com/gopcp/pmcd@1.2.3%2Bgit.abc" {
		t.Errorf("%s", &one)
	}
	std := slices.IndexFunc(got.Components, func(c component) bool { return strings.HasPrefix(c.PURL, "pkg:golang/std@1.") })
	if std < 0 || !slices.Contains(got.DependsOn[0].DependsOn, got.Components[std].Ref) {
		t.Errorf("no standard library:\n%s", &one)
	}
}

func TestNoProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("text\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := write(&bytes.Buffer{}, "1", []string{path}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
}
