package qemutest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

func TestMain(m *testing.M) {
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}

// A processor is one for which programs are built here.
type processor struct {
	goarch, qemu string
	machine      string // as uname(2) calls it
}

var processors = []processor{
	{"s390x", "qemu-s390x-static", "s390x"},
	{"arm64", "qemu-aarch64-static", "aarch64"},
}

// eachProcessor runs a test for each processor.
func eachProcessor(t *testing.T, test func(t *testing.T, p processor)) {
	peer.Require(t)
	for _, p := range processors {
		t.Run(p.goarch, func(t *testing.T) { test(t, p) })
	}
}

// program builds a program of the module for p. It returns a script that runs it with
// qemu, in the same process.
func (p processor) program(t *testing.T, name, pkg string) string {
	t.Helper()
	qemu := testutil.NeedProgram(t, p.qemu)
	path := static(t, p.goarch, name, pkg)
	script := filepath.Join(filepath.Dir(path), "qemu-"+name)
	text := fmt.Sprintf("#!/bin/sh\nexec %s %s \"$@\"\n", qemu, path)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return script
}

func (p processor) pmcd(t *testing.T) string { return p.program(t, "pmcd", "./cmd/pmcd") }

func (p processor) pmcdctl(t *testing.T) string {
	return p.program(t, "pmcdctl", "./cmd/pmcd/pmcdctl")
}

// The same programs for the processor of this machine.

func nativePmcd(t *testing.T) string { return static(t, runtime.GOARCH, "pmcd", "./cmd/pmcd") }

func nativePmcdctl(t *testing.T) string {
	return static(t, runtime.GOARCH, "pmcdctl", "./cmd/pmcd/pmcdctl")
}

func static(t *testing.T, goarch, name, pkg string) string {
	t.Helper()
	path, err := peer.Static(goarch, name, pkg)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// output runs a client, which must succeed and print something, and nothing on standard
// error.
func output(t *testing.T, d *peer.Daemon, args ...string) string {
	t.Helper()
	o, err := d.Run(t.Context(), peer.TCP4, peer.Client{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	if o.Code != 0 || o.Stderr != "" || o.Stdout == "" {
		t.Fatalf("%s\n%s", o.Cmd, o)
	}
	return o.Stdout
}

// firstDifference returns the first lines that differ, or "".
func firstDifference(a, b string) string {
	as, bs := peer.Whole(a)[0].Lines, peer.Whole(b)[0].Lines
	for i := range max(len(as), len(bs)) {
		x, y := line(as, i), line(bs, i)
		if x != y {
			return fmt.Sprintf("line %d of %d and %d:\n%s\n%s", i+1, len(as), len(bs), x, y)
		}
	}
	return ""
}

func line(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(none)"
}
