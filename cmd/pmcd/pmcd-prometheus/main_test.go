package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func TestUsage(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"--help"}, exitOK, "\n  -h, --host host ", ""},
		{[]string{"--version"}, exitOK, "pmcd-prometheus ", ""},
		{[]string{"-V"}, exitOK, "with the behaviour of PCP", ""},
		{[]string{"--no-such"}, exitUsage, "", "try: pmcd-prometheus --help"},
		{[]string{"-h", "host:port"}, exitUsage, "", "-h: "},
		{[]string{"--timeout", "1ms"}, exitUsage, "", "--timeout: it must be between 1s and 1h"},
		{[]string{"--timeout", "2h"}, exitUsage, "", "--timeout: it must be between 1s and 1h"},
		{[]string{"--listen", l.Addr().String()}, exitFailed, "", "address already in use"},
		{[]string{"--listen", "nowhere"}, exitFailed, "", "missing port"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(tt.args, &stdout, &stderr)
			if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) ||
				tt.stderr == "" && stderr.Len() > 0 {
				t.Errorf("%d, want %d\nstdout: %s\nstderr: %s", code, tt.code, &stdout, &stderr)
			}
		})
	}
}

// The unit is failed after wrong arguments: to start it again and again would hide the mistake.
func TestUnit(t *testing.T) {
	unit, err := os.ReadFile("../../../systemd/pmcd-prometheus.service")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("\nRestartPreventExitStatus=%d\n", exitUsage); !strings.Contains(string(unit), want) {
		t.Errorf("the unit does not have %q", want)
	}
}

// The log has the form of PCP's, and in the journal no time. What a pmcd sends is not a line of
// its own.
func TestLog(t *testing.T) {
	const plain, ofJournal = `^\[.* \d\d:\d\d:\d\d\] pmcd-prometheus\(\d+\) Warning: no values: a\n\t\| b\n$`, `^<4>no values: a\n<4>\t\| b\n$`
	path := filepath.Join(t.TempDir(), "log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	for journal, want := range map[string]string{
		"": plain, fmt.Sprintf("%d:%d", st.Dev, st.Ino): ofJournal,
		fmt.Sprintf("%d:%d", st.Dev, st.Ino+1): plain, // of the program that has started this one
	} {
		t.Setenv("JOURNAL_STREAM", journal)
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		newLog(f).Warn("no values: {error}", "error", errors.New("a\nb"))
		if b, err := os.ReadFile(path); err != nil || !regexp.MustCompile(want).Match(b) {
			t.Errorf("JOURNAL_STREAM=%s: got %q, %v, want %s", journal, b, err, want)
		}
	}
}

// No name in the default set is below another one, or there twice.
func TestDefaultMetrics(t *testing.T) {
	for i, a := range defaultMetrics {
		if slices.Contains(defaultMetrics[i+1:], a) {
			t.Errorf("%s is there twice", a)
		}
		for _, b := range defaultMetrics {
			if strings.HasPrefix(a, b+".") && a != "filesys.mountdir" { // a string, which only its own name serves
				t.Errorf("%s has %s", b, a)
			}
		}
	}
	if got := metricsOf(options{metrics: []string{"a"}}); !slices.Equal(got, []string{"a"}) {
		t.Errorf("arguments: %q", got)
	}
	if got, want := metricsOf(options{metrics: []string{"a", "default", "b"}}), slices.Concat([]string{"a"}, defaultMetrics, []string{"b"}); !slices.Equal(got, want) {
		t.Errorf("with others: %q", got)
	}
}

// A signal that was ignored at the start, as with nohup, stays ignored.
func TestIgnoredSignal(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	var b bytes.Buffer
	run([]string{"--version"}, &b, &b)
	if !signal.Ignored(syscall.SIGHUP) {
		t.Error("SIGHUP is not ignored any more")
	}
}
