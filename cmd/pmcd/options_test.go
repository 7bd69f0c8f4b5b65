package main

import (
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/cli"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// Exit codes and messages that scripts and people know from C pmcd.
func TestBadOptions(t *testing.T) {
	const notStarted = "pmcd not started due to errors!\n"
	tests := []struct {
		args string
		code int
		text string // of the first lines
	}{
		{"-?", 0, "Usage: pmcd [options]"},
		{"--help", 0, "Usage: pmcd [options]"},
		{"-v -?", 0, "Usage: pmcd [options]"},
		{"--bogus", 0, "pmcd: unrecognized option '--bogus'"},
		{"--bogus=1", 0, "pmcd: unrecognized option '--bogus=1'"},
		{"--verify=1", 0, "pmcd: option '--verify' doesn't allow an argument"},
		{"--ver=", 0, "pmcd: option '--verify' doesn't allow an argument"},
		{"--max 1", 0, "pmcd: option '--max' is ambiguous; possibilities: '--maxctx' '--maxbytes' '--maxmetric'"},
		{"-fz", 0, "pmcd: invalid option -- 'z'"},
		{"-c", 0, "pmcd: option requires an argument -- 'c'"},
		{"-fc", 0, "pmcd: option requires an argument -- 'c'"},
		{"--conf", 0, "pmcd: option '--config' requires an argument"},
		{"-q 0 --bogus", 0, "pmcd: -q requires a positive numeric argument (0)\npmcd: unrecognized option '--bogus'"},
		{"-q 0 -?", 0, "pmcd: -q requires a positive numeric argument (0)"},
		{"-q 0", 1, "pmcd: -q requires a positive numeric argument (0)"},
		{"--max-reply 64k", 1, "pmcd: --max-reply requires a number of bytes, 65536 or more (64k)"},
		{"--relay 192.0.2.1,localhost", 1, "pmcd: --relay requires numeric addresses or networks (192.0.2.1,localhost)"},
		{"--relay=::ffff:192.0.2.0/120", 1, "pmcd: --relay requires numeric addresses or networks (::ffff:192.0.2.0/120)"},
		{"--relay=fe80::1%eth0", 1, "pmcd: --relay requires numeric addresses or networks (fe80::1%eth0)"},
		{"--relay=", 1, "pmcd: --relay requires numeric addresses or networks ()"},
		{"--late-grace -1", 1, "pmcd: --late-grace requires a number of seconds (-1)"},
		{"-q 1x -t -1", 1, "pmcd: -q requires a positive numeric argument (1x)\npmcd: -t requires a positive numeric argument (-1)"},
		{"-T x", 1, "pmcd: -T requires a positive numeric argument (x)"},
		{"-L 0", 1, "pmcd: -L requires a positive value (0)"},
		{"-C x", 1, "pmcd: -C requires a positive value (x)"},
		{"-M -3", 1, "pmcd: -M requires a positive value (-3)"},
		{"-p x", 1, "pmcd: -p requires a positive numeric argument (x)"},
		{"-p 1,-1", 1, "pmcd: -p requires a positive numeric argument (1,-1)"},
		{"-D nonsense", 1, "pmcd: unrecognized debug options specification (nonsense)"},
		{"-f --embedded -n /n", 1, "pmcd: --embedded does not go with -c, -n or -N"},
		{"-f extra -?", 1, "Usage: pmcd [options]"},
		{"-", 1, "Usage: pmcd [options]"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var stderr bytes.Buffer
			code := run(strings.Fields(tt.args), &stderr)
			if code != tt.code || !strings.HasPrefix(stderr.String(), tt.text+"\n") {
				t.Errorf("%s: exit code %d; want %d, %q first:\n%s", tt.args, code, tt.code, tt.text, &stderr)
			}
			if failed := strings.HasSuffix(stderr.String(), notStarted); failed != (tt.code == 1) {
				t.Errorf("%s: %q at the end: %v", tt.args, notStarted, failed)
			}
			// All of the usage only if that was asked for.
			asked := strings.Contains(tt.args, "-?") && !strings.HasPrefix(tt.args, "-f extra") || tt.args == "--help"
			if all := strings.Contains(stderr.String(), "--foreground"); all != asked {
				t.Errorf("%s: the whole usage is printed: %v, want %v", tt.args, all, asked)
			}
			if short := strings.Contains(stderr.String(), "Usage: pmcd [options]\nTry 'pmcd --help' for the options.\n"); short == asked {
				t.Errorf("%s: the short usage is printed: %v, want %v", tt.args, short, !asked)
			}
		})
	}
	var stderr bytes.Buffer
	run([]string{"-f", "extra", "more"}, &stderr)
	if want := "\npmcd: unexpected argument \"extra\"\n" + notStarted; !strings.HasSuffix(stderr.String(), want) {
		t.Errorf("no %q at the end of\n%s", want, &stderr)
	}
}

// For a service a mistake in the options is one line and the end: the journal has
// it, and the exit code is not that of success.
func TestBadOptionsOfService(t *testing.T) {
	for _, tt := range []struct {
		args, socket string // NOTIFY_SOCKET
		code         int
		want         string // all of the standard error output; "" is the usage, as long as it is
	}{
		{"-F --bogus", "", 78, "pmcd: not started: unrecognized option '--bogus'\n"},
		{"--bogus -q 0 x", "/n", 78, "pmcd: not started: unrecognized option '--bogus'; -q requires a positive numeric argument (0); unexpected argument \"x\"\n"},
		{"--verify --bogus", "/n", 78, "pmcd: not started: unrecognized option '--bogus'\n"},
		{"-F -c", "", 78, "pmcd: not started: option requires an argument -- 'c'\n"},
		{"-F -p x", "", 78, "pmcd: not started: -p requires a positive numeric argument (x)\n"},
		{"-F --help", "/n", 78, "pmcd: not started: --help is not for a service\n"},
		{"-V", "/n", 78, "pmcd: not started: --version is not for a service\n"},
		{"-F -c conf -n names", "", 78, "pmcd: bad PMCD_PORT in the environment: \"x\": port numbers, separated by commas, are valid\npmcd not started due to errors!\n"},
		{"-f -c conf -n names", "", 1, "pmcd: bad PMCD_PORT in the environment: \"x\": port numbers, separated by commas, are valid\npmcd not started due to errors!\n"},
		{"-F --help", "", 0, ""},
		{"-f --bogus", "", 0, "pmcd: unrecognized option '--bogus'\nUsage: pmcd [options]\nTry 'pmcd --help' for the options.\n"},
	} {
		t.Setenv("PMCD_PORT", "x")
		t.Setenv("NOTIFY_SOCKET", tt.socket)
		var stderr bytes.Buffer
		code := run(strings.Fields(tt.args), &stderr)
		if code != tt.code || tt.want != "" && stderr.String() != tt.want || tt.want == "" && !strings.Contains(stderr.String(), "--foreground") {
			t.Errorf("%s, NOTIFY_SOCKET=%s: exit code %d, want %d\n%s\nwant %s", tt.args, tt.socket, code, tt.code, &stderr, tt.want)
		}
	}
	t.Setenv("NOTIFY_SOCKET", "")
	fatal := filepath.Join(t.TempDir(), "fatal")
	if code := run([]string{"-F", "--bogus", "-x", fatal}, io.Discard); code != cli.ExitMistake || pmcdtest.Read(fatal) != "NOTE: pmcd not started due to errors!  unrecognized option '--bogus'\n" {
		t.Errorf("exit code %d, and the file of -x has %q", code, pmcdtest.Read(fatal))
	}
}

// pcp.conf decides where a pmcd listens that has a configuration and no -i.
func TestDefaultAddresses(t *testing.T) {
	dir := testutil.WriteFiles(t, map[string]string{"pcp.conf": ""})
	for file, want := range map[string][]string{"pcp.conf": nil, "none": {"loopback"}} {
		t.Setenv("PCP_CONF", filepath.Join(dir, file))
		opt, err := cli.Parse([]string{"-f", "-c", "conf", "-n", "names"})
		if err == nil {
			err = complete(opt, true, io.Discard)
		}
		if err != nil || !slices.Equal(opt.Interfaces, want) {
			t.Errorf("%s: listens at %q, want %q, %v", file, opt.Interfaces, want, err)
		}
	}
}
