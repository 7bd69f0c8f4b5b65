package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
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
	for journal, want := range map[string]string{
		"":    `^\[.* \d\d:\d\d:\d\d\] pmcd-prometheus\(\d+\) Warning: no values: a\n\t\| b\n$`,
		"1:2": `^<4>no values: a\n<4>\t\| b\n$`,
	} {
		t.Setenv("JOURNAL_STREAM", journal)
		var b bytes.Buffer
		newLog(&b).Warn("no values: {error}", "error", errors.New("a\nb"))
		if !regexp.MustCompile(want).Match(b.Bytes()) {
			t.Errorf("JOURNAL_STREAM=%s: got %q, want %s", journal, &b, want)
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
