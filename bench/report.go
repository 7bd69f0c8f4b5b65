package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
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
	err = errors.Join(err, o.write(b.Bytes(), struct {
		Host    string
		Results []result
	}{host(), results}))
	for file := range strings.FieldsFuncSeq(o.into, func(r rune) bool { return r == ',' }) {
		err = errors.Join(err, insert(file, results))
	}
	return err
}

// write writes the files for the tables and for all numbers.
func (o *options) write(tables []byte, numbers any) (err error) {
	if o.text != "" {
		err = os.WriteFile(o.text, tables, 0o644)
	}
	if o.json != "" {
		text, e := json.MarshalIndent(numbers, "", " ")
		if e == nil {
			e = os.WriteFile(o.json, append(text, '\n'), 0o644)
		}
		err = errors.Join(err, e)
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

// table writes the medians over rounds as tables in Markdown, one for each group, and the
// errors below them.
func table(w io.Writer, results []result) {
	fmt.Fprintf(w, "%s.\n\n", host())
	for _, calm := range []bool{true, false} {
		if rows := longRows(results, calm); rows != "" {
			fmt.Fprintf(w, "%s%s\n", longHead, rows)
		}
	}
	for i := range results {
		for s, side := range results[i].Sides {
			if side.Errors > 0 {
				fmt.Fprintf(w, "- %s, %s: %d failed, the first with %q\n", results[i].Scenario, sideNames[s], side.Errors, side.Error)
			}
		}
	}
}

var (
	longHead  = fmt.Sprintf("| scenario | | %s | %s | ratio | %[1]s max/min | goal |\n|---|---|---:|---:|---:|---:|---|\n", sideNames[theirs], sideNames[ours])
	shortHead = fmt.Sprintf("| | | %s | %s | ratio |\n|---|---|---:|---:|---:|\n", sideNames[theirs], sideNames[ours])
)

// longRows returns rows with all measures of a group.
func longRows(results []result, calm bool) string {
	var b strings.Builder
	for i := range results {
		r := &results[i]
		if r.calm != calm {
			continue
		}
		name := fmt.Sprintf("%s: %s", r.Scenario, r.About)
		for _, m := range r.shows {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", name, m.title(), strings.Join(m.row(r), " | "))
			name = ""
		}
	}
	return b.String()
}

// shortRows returns rows with the first measure of each of the named scenarios.
func shortRows(results []result, names string) string {
	wanted := strings.Fields(names)
	var b strings.Builder
	for i := range results {
		if r := &results[i]; slices.Contains(wanted, r.Scenario) {
			m := r.shows[0]
			fmt.Fprintf(&b, "| %s: %s | %s | %s |\n", r.Scenario, r.About, m.title(), strings.Join(m.row(r)[:3], " | "))
		}
	}
	return b.String()
}

// inserted is a table in a document: the names of scenarios, and the rest.
var inserted = regexp.MustCompile(`(?s)<!-- bench: (.*?) -->\n.*?<!-- /bench -->\n`)

// insert puts tables into a file: the first number of each scenario that a mark names. A table for
// which there are no results stays.
func insert(file string, results []result) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n := len(inserted.FindAll(text, -1)); n == 0 || n != bytes.Count(text, []byte("<!-- bench: ")) {
		return fmt.Errorf("%s: %d tables of the form %v", file, n, inserted)
	}
	return os.WriteFile(file, inserted.ReplaceAllFunc(text, func(old []byte) []byte {
		names := string(inserted.FindSubmatch(old)[1])
		rows := shortRows(results, names)
		if rows == "" {
			return old
		}
		return fmt.Appendf(nil, "<!-- bench: %s -->\n\n%s.\n\n%s%s\n<!-- /bench -->\n", names, host(), shortHead, rows)
	}), 0o644)
}

// title returns the name of the measure and its unit.
func (m measure) title() string {
	if m.unit == "" {
		return m.key
	}
	return m.key + ", " + m.unit
}

// row returns the median of each side, their ratio, the ratio of the largest number of C pmcd
// to its smallest, and the goal, with a mark if it is missed.
func (m measure) row(r *result) []string {
	cells := []string{"-", "-", "", "", ""}
	c, haveC := r.Sides[theirs].median(m.key)
	here, haveHere := r.Sides[ours].median(m.key)
	if haveC {
		cells[0] = number(c)
	}
	if haveHere {
		cells[1] = number(here)
	}
	value, have := here, haveHere
	switch {
	case haveC && haveHere && m.blocks:
		cells[2] = sideNames[theirs] + " blocks"
	case haveC && haveHere && c > 0:
		cells[2] = number(here / c)
	}
	if noise, ok := r.Sides[theirs].spread(m.key); ok {
		cells[3] = number(noise)
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
	cells[4] = sign + " " + number(m.goal)
	if missed || !have {
		cells[4] += " (missed)"
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
