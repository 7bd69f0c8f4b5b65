// Command licenses prints the copyright holders of what is linked into the programs, and all
// licence texts, in the machine-readable format of Debian (DEP-5):
//
//	go run ./etc/packaging/licenses >etc/packaging/copyright
//
// It reads the licences of modules from the module cache, or from vendor.
package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	text, err := generate(".")
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
	os.Stdout.WriteString(text)
}

// A module is one that is linked, with its licence.
type module struct {
	path      string
	dir       string // where its files are
	copyright []string
	license   string // SPDX
	text      string // of the licence, without lines of copyright
	notice    string // the file NOTICE
}

// generate returns the text for the module in directory root.
func generate(root string) (string, error) {
	modules, err := linked(root)
	if err != nil {
		return "", err
	}
	own, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(`Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: pmcd
Source: https://github.com/gopcp/pmcd
Comment: The programs contain the runtime and parts of the standard library of Go,
 Copyright 2009 The Go Authors, with the licence of vendor/golang.org/x/sys.
 On Debian systems, Apache-2.0 is also in /usr/share/common-licenses/Apache-2.0.

Files: *
Copyright: 2026 The pmcd authors
License: Apache-2.0
`)
	texts := []module{{license: "Apache-2.0", text: string(own)}} // one for each licence
	for _, m := range modules {
		m.license = nameOf(&texts, m)
		fmt.Fprintf(&b, "\nFiles: vendor/%s/*\nCopyright: %s\nLicense: %s\n", m.path, strings.Join(m.copyright, "\n "), m.license)
		if m.notice != "" {
			fmt.Fprintf(&b, "Comment: The file NOTICE:\n%s", indented(m.notice))
		}
	}
	for _, t := range texts {
		fmt.Fprintf(&b, "\nLicense: %s\n%s", t.license, indented(t.text))
	}
	return b.String(), nil
}

// nameOf returns the name in texts of the licence of m, which is added if it is not there.
// Licences of one kind that differ, for example in names, have different names.
func nameOf(texts *[]module, m module) string {
	same := func(a, b string) bool { return slices.Equal(strings.Fields(a), strings.Fields(b)) }
	taken := false
	for _, t := range *texts {
		// The appendix of Apache-2.0 is not a part of the terms.
		if same(t.text, m.text) || m.license == "Apache-2.0" && t.license == m.license {
			return t.license
		}
		taken = taken || t.license == m.license
	}
	if taken {
		m.license += "-" + filepath.Base(m.path)
	}
	*texts = append(*texts, m)
	return m.license
}

// indented returns text as the value of a field of several lines.
func indented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		line = strings.TrimRight(line, " \n")
		fmt.Fprintf(&b, " %s\n", cmp.Or(line, "."))
	}
	return b.String()
}

// programs are all that is released.
var programs = []string{"./cmd/pmcd", "./cmd/pmcd/pmcdctl", "./cmd/pmcd/pmcd-prometheus", "./agents/builtin/..."}

// linked returns the modules that programs are linked with, sorted.
func linked(root string) (all []module, err error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}"}, programs...)...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS=linux")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	lines := strings.Fields(strings.ReplaceAll(string(out), "\t\n", "\tvendor\n"))
	seen := make(map[string]bool)
	for pair := range slices.Chunk(lines, 2) {
		m := module{path: pair[0], dir: pair[1]}
		if seen[m.path] {
			continue
		}
		seen[m.path] = true
		if m.dir == "vendor" {
			m.dir = filepath.Join(root, m.dir, m.path)
		}
		if err := m.read(); err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return all, nil
}

// held is a line that names a copyright holder. That of Apache-2.0 with [yyyy] is to be filled in.
var held = regexp.MustCompile(`(?m)^(?:// ?|/?\* ?)?Copyright(?: \([cC]\)| ©)? ([^[{\n]+)\n`)

// read reads the licence of m.
func (m *module) read() error {
	text, err := os.ReadFile(filepath.Join(m.dir, "LICENSE"))
	if err != nil {
		if text, err = os.ReadFile(filepath.Join(m.dir, "LICENSE.txt")); err != nil {
			return err
		}
	}
	notice, err := os.ReadFile(filepath.Join(m.dir, "NOTICE"))
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	m.notice = string(notice)
	m.text = held.ReplaceAllString(string(text), "")
	switch {
	case strings.Contains(m.text, "Apache License"):
		m.license = "Apache-2.0"
	case strings.Contains(m.text, "Permission is hereby granted, free of charge"):
		m.license = "MIT"
	case strings.Contains(m.text, "Redistribution and use in source and binary forms") && strings.Contains(m.text, "Neither the name"):
		m.license = "BSD-3-Clause"
	default:
		return fmt.Errorf("its licence is not known to this program")
	}
	// In its sources, if neither the licence nor NOTICE names them.
	from := string(text) + m.notice
	if !held.MatchString(from) {
		files, err := filepath.Glob(filepath.Join(m.dir, "*.go"))
		if err != nil {
			return err
		}
		for _, file := range files {
			source, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			from += string(source)
		}
	}
	for _, match := range held.FindAllStringSubmatch(from, -1) {
		who := strings.Replace(strings.TrimSpace(match[1]), " by ", " ", 1)
		who = strings.TrimRight(strings.TrimSuffix(who, "All rights reserved."), " .")
		if !slices.Contains(m.copyright, who) {
			m.copyright = append(m.copyright, who)
		}
	}
	if m.copyright == nil {
		return fmt.Errorf("no file names a copyright holder")
	}
	return nil
}
