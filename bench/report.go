package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// report prints the table and writes the files that the options name.
func (o *options) report(results []result) error {
	var b bytes.Buffer
	table(&b, results)
	_, err := os.Stdout.Write(b.Bytes())
	if o.text != "" {
		err = errors.Join(err, os.WriteFile(o.text, b.Bytes(), 0o644))
	}
	if o.json != "" {
		text, e := json.MarshalIndent(struct {
			Host    string
			Results []result
		}{host(), results}, "", " ")
		if e == nil {
			e = os.WriteFile(o.json, append(text, '\n'), 0o644)
		}
		err = errors.Join(err, e)
	}
	for file := range strings.FieldsFuncSeq(o.into, func(r rune) bool { return r == ',' }) {
		err = errors.Join(err, insert(file, results))
	}
	if o.svg != "" {
		for name, text := range plots(results) {
			err = errors.Join(err, os.WriteFile(filepath.Join(o.svg, name), []byte(text), 0o644))
		}
	}
	return err
}

// host describes the host on which the numbers were measured.
func host() string {
	model := "unknown CPU"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	var u unix.Utsname
	unix.Uname(&u)
	return fmt.Sprintf("%d CPUs, %s, Linux %s, %s", runtime.NumCPU(), model, unix.ByteSliceToString(u.Release[:]), runtime.Version())
}

// table writes the medians over rounds as a table in Markdown, and the errors
// below it.
func table(w io.Writer, results []result) {
	fmt.Fprintf(w, "%s.\n\n", host())
	fmt.Fprintf(w, "| scenario | | %s | %s | ratio | goal |\n|---|---|---:|---:|---:|---|\n", sideNames[theirs], sideNames[ours])
	for i := range results {
		r := &results[i]
		if r.plotted {
			continue
		}
		name := fmt.Sprintf("%s: %s", r.Scenario, r.About)
		for _, m := range r.shows {
			fmt.Fprintf(w, "| %s | %s | %s |\n", name, m.title(), strings.Join(m.row(r), " | "))
			name = ""
		}
	}
	fmt.Fprintln(w)
	for i := range results {
		for s, side := range results[i].Sides {
			if side.Errors > 0 {
				fmt.Fprintf(w, "- %s, %s: %d failed, the first with %q\n", results[i].Scenario, sideNames[s], side.Errors, side.Error)
			}
		}
	}
}

// Marks between which insert puts the short table. The first one has the names
// of the scenarios between its two parts, or "all".
const (
	insertBegin = "<!-- bench: "
	insertNames = " -->\n"
	insertEnd   = "<!-- /bench -->\n"
)

// insert puts the first number of each scenario that the mark names into a file.
func insert(file string, results []result) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(old), insertBegin)
	names, rest, ok2 := strings.Cut(rest, insertNames)
	_, after, ok3 := strings.Cut(rest, insertEnd)
	if !ok || !ok2 || !ok3 {
		return fmt.Errorf("%s has no %qNAMES%q and %q", file, insertBegin, insertNames, insertEnd)
	}
	wanted := strings.Fields(names)
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s%s%s\n%s.\n\n| | | %s | %s | ratio |\n|---|---|---:|---:|---:|\n",
		before, insertBegin, names, insertNames, host(), sideNames[theirs], sideNames[ours])
	for i := range results {
		if r := &results[i]; !r.plotted && (names == "all" || slices.Contains(wanted, r.Scenario)) {
			m := r.shows[0]
			fmt.Fprintf(&b, "| %s: %s | %s | %s |\n", r.Scenario, r.About, m.title(), strings.Join(m.row(r)[:3], " | "))
		}
	}
	fmt.Fprintf(&b, "\n%s%s", insertEnd, after)
	return os.WriteFile(file, []byte(b.String()), 0o644)
}

// title returns the name of the measure and its unit.
func (m measure) title() string {
	if m.unit == "" {
		return m.key
	}
	return m.key + ", " + m.unit
}

// row returns the median of each side, their ratio, and the goal, with a mark if it
// is missed.
func (m measure) row(r *result) []string {
	cells := []string{"-", "-", "", ""}
	c, haveC := r.Sides[theirs].median(m.key)
	here, haveHere := r.Sides[ours].median(m.key)
	if haveC {
		cells[0] = number(c)
	}
	if haveHere {
		cells[1] = number(here)
	}
	value, have := here, haveHere
	if haveC && haveHere && c > 0 {
		cells[2] = number(here / c)
	}
	if !m.own {
		value, have = here/c, haveC && haveHere && c > 0
	}
	if m.goal == 0 {
		return cells
	}
	sign, missed := "≤", value > m.goal
	if m.higher {
		sign, missed = "≥", value < m.goal
	}
	cells[3] = sign + " " + number(m.goal)
	if missed || !have {
		cells[3] += " (missed)"
	}
	return cells
}

// number formats x with two or three digits, or with all digits before the point.
func number(x float64) string {
	switch {
	case x >= 100 || x == float64(int(x)):
		return fmt.Sprintf("%.0f", x)
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	case x >= 0.1:
		return fmt.Sprintf("%.2f", x)
	}
	return fmt.Sprintf("%.2g", x)
}
