// Command sbom prints a list of the Go modules in programs, in the JSON format of
// CycloneDX 1.5, from what the go command has written into them:
//
//	go run ./etc/packaging/sbom VERSION PROGRAM...
//
// The same programs give the same bytes.
package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: sbom VERSION PROGRAM...")
		os.Exit(2)
	}
	if err := write(os.Stdout, os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

type bom struct {
	Format      string       `json:"bomFormat"`
	SpecVersion string       `json:"specVersion"`
	Version     int          `json:"version"`
	Metadata    metadata     `json:"metadata"`
	Components  []component  `json:"components"`
	DependsOn   []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Properties []property `json:"properties,omitempty"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// newComponent returns the component for a module; sum is that of go.sum, or "".
func newComponent(kind, path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := component{Type: kind, Ref: purl, Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}

// write writes the list for programs, which must be of the same module.
func write(w io.Writer, version string, programs []string) error {
	main := ""
	byRef := make(map[string]component)
	add := func(c component) { byRef[c.Ref] = c }
	for _, path := range programs {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		if main == "" {
			main = info.Main.Path
		} else if main != info.Main.Path {
			return fmt.Errorf("%s is of module %s, not %s", path, info.Main.Path, main)
		}
		add(newComponent("library", "std", strings.TrimPrefix(info.GoVersion, "go"), ""))
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if m.Version == "" {
				return fmt.Errorf("%s has module %s from a directory", path, m.Path)
			}
			add(newComponent("library", m.Path, m.Version, m.Sum))
		}
	}
	if main == "" {
		return errors.New("no module")
	}
	b := bom{Format: "CycloneDX", SpecVersion: "1.5", Version: 1}
	b.Metadata.Component = newComponent("application", main, version, "")
	refs := make([]string, 0, len(byRef))
	for _, c := range byRef {
		b.Components = append(b.Components, c)
		refs = append(refs, c.Ref)
	}
	slices.SortFunc(b.Components, func(x, y component) int { return cmp.Compare(x.Ref, y.Ref) })
	slices.Sort(refs)
	b.DependsOn = []dependency{{Ref: b.Metadata.Component.Ref, DependsOn: refs}}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(b)
}
