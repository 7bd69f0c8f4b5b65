package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// The first line on the standard error output and the exit code are those of C
// pmcd 6.0.3. All command lines begin with -v, so that nothing is started.
func TestPeerCommandLines(t *testing.T) {
	peer.Require(t)
	ours, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good":    "pmcd 2 dso pmcd_init /none\n",
		"late":    "b x\npmcd 2 dso pmcd_init /none\n",
		"bad":     "pmcd 2 dso pmcd_init /none\nb x\n",
		"empty":   "",
		"comment": "# pmcd 2 dso pmcd_init /none\n",
		"names":   "root { a }\na { b 2:0:0 }\n",
		"rules":   "pmcd 2 dso pmcd_init /none\n[access]\nallow * : nothing;\n",
		"beside":  "pmcd 2 dso pmcd_init /none\n", "beside.access": "allow * all;\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	run := func(program string, env []string, args ...string) (code int, first string) {
		t.Helper()
		args = append([]string{"-v", "-c", "good", "-n", "names", "-x", "/dev/null"}, args...)
		cmd := exec.CommandContext(t.Context(), program, args...)
		cmd.Args[0] = "pmcd"
		cmd.Dir = dir
		cmd.Env = append([]string{"PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"}, env...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
			t.Fatal(err)
		}
		first, _, _ = strings.Cut(stderr.String(), "\n")
		return cmd.ProcessState.ExitCode(), first
	}

	// For some options, only our message has the value.
	same := func(ours, c string) bool {
		return ours == c || strings.HasPrefix(ours, c+" (") && strings.Contains(c, " requires a positive ")
	}
	for _, line := range []string{
		"", "--", "-f", "-vf", "-fv", "-A", "-fA", "--verify", "--v", "--verif --foreg", "--f",
		"-?", "--help", "--he", "-? extra", "-q 0 -?",
		"-h", "-z", "-fz", "--bogus", "--bogus=1", "---", "--F", "--foregroundx",
		"--verify=1", "--verify=", "--hel=x", "--u x", "--r", "--bogus -q 0", "-q 0 --bogus",
		"extra", "extra -?", "-- extra", "-",
		"-c", "-x", "--config", "--conf", "--port", "-fq",
		"-c bad", "-c late", "-cbad", "--config=bad", "--c bad", "-c bad -c good",
		"-c missing", "-c missing/too", "-c rules", "-c beside",
		"-q 0", "-q -1", "-q 1.5", "-q 3x", "-q 0x3", "-q 010", "-q +3", "-q3", "-q 99999999999", "-fq3",
		"-t 0", "-t -1", "-t 0x5", "-t 5s", "-q 0 -t x", "-q 0 -q 0",
		"-T -1", "-T 3", "-T x", "--trace 1", "--trace=x",
		"-L 0", "-L -1", "-L 64k", "-L x", "-L 0x100", "-L 08", "-L -0x10", "-L 99999999999",
		"-p x", "-p -1", "-p 0", "-p 1,2", "-p 1,,2", "-p ,1", "-p 1,", "-p 0x10", "-p 010", "-p 1x", "-p 1,-2", "-p 1x,2",
		"-p 1 -p 2", "--port=1", "--p 1", "-p x -D zz",
		"-i INADDR_ANY", "-i ::1", "--interface=127.0.0.1",
		"-D nonsense", "-D pmns,fetch", "-D PDU", "-D -1x", "-D 0x1", "--debug=pdu", "--debug=", "--debug",
		"-U nosuchuser", "--username u", "-H h", "--hostname=h", "-Q", "-S", "--remotecert", "--reqauth",
		"-s /s", "--socket=/s", "-l /l", "--log /l", "--l /l", "--so /s", "--e", "--em", "-N names", "--uniqnames=names", "--namespace=names", "-n x -n names",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(line)
			code, first := run(peer.CPmcd, nil, args...)
			if c, f := run(ours, nil, args...); c != code || !same(f, first) {
				t.Errorf("%s\n  C pmcd: %d %q\n  ours:   %d %q", line, code, first, c, f)
			}
		})
	}
	// An argument may be empty.
	for _, args := range [][]string{{"-q", ""}, {"-t", ""}, {"-T", ""}, {"-L", ""}, {"-p", ""}, {"-p", " 1"}, {"-D", ""}, {"-H", ""}, {""}} {
		code, first := run(peer.CPmcd, nil, args...)
		if c, f := run(ours, nil, args...); c != code || !same(f, first) {
			t.Errorf("%q\n  C pmcd: %d %q\n  ours:   %d %q", args, code, first, c, f)
		}
	}
	for _, env := range []string{"PMCD_PORT=1,2", "PMCD_PORT=", "PMCD_LOCAL=1", "PMCD_MAXPENDING=3", "PCP_CONF=/no/such/file", "PCP_DIR=/no/such/file"} {
		code, first := run(peer.CPmcd, []string{env})
		if c, f := run(ours, []string{env}); c != code || f != first {
			t.Errorf("%s\n  C pmcd: %d %q\n  ours:   %d %q", env, code, first, c, f)
		}
	}

	for _, tt := range []struct {
		line, env string
		c, our    int
		our1, why string
	}{
		{"-C 5", "", 0, 0, "", "7.2.1"},
		{"-M 5", "", 0, 0, "", "7.2.1"},
		{"-F", "", 0, 0, "", "7.2.1"},
		{"-V", "", 0, 0, "", "the version, on the standard output"},
		{"--version", "", 0, 0, "", "the version, on the standard output"},
		{"-M x", "", 0, 1, "pmcd: -M requires a positive value (x)", "7.2.1"},
		{"--maxbytes=5", "", 0, 0, "", "7.2.1"},
		{"-D 1", "", 0, 1, "pmcd: unrecognized debug options specification (1)", "7.2.1 knows names only"},
		{"-D ,", "", 1, 0, "", "empty names are left out"},
		{"-i localhost", "", 0, 0, "Warning: -i localhost is ignored: an address is numeric, INADDR_ANY or INADDR_LOOPBACK; without another one only the Unix domain socket is served", "more is checked"},
		{"-p 70000", "", 0, 0, "Warning: port 70000 of -p is ignored: ports are 1 to 65535; without another one only the Unix domain socket is served", "more is checked"},
		{"-c .", "", 1, 1, "pmcd verify .: Not a regular file", "only the words"},
		{"-c empty", "", 0, 1, `Error: No PMDAs found in the configuration file "empty"`, "pmcd does not start with it"},
		{"-c comment", "", 0, 1, `Error: No PMDAs found in the configuration file "comment"`, "pmcd does not start with it"},
		{"-n missing", "", 0, 1, `Error: Cannot open "missing": no such file or directory`, "it would keep pmcd from starting"},
		{"", "PMCD_PORT=x", 0, 1, `pmcd verify good: bad PMCD_PORT in the environment: "x": port numbers, separated by commas, are valid`, "it would keep pmcd from starting"},
		{"-p 1", "PMCD_PORT=x", 1, 1, `pmcd verify good: bad PMCD_PORT in the environment: "x": port numbers, separated by commas, are valid`, "no crash"},
	} {
		t.Run(strings.TrimSpace(tt.env+" "+tt.line), func(t *testing.T) {
			code, first := run(peer.CPmcd, []string{tt.env}, strings.Fields(tt.line)...)
			c, f := run(ours, []string{tt.env}, strings.Fields(tt.line)...)
			if code != tt.c || c != tt.our || f != tt.our1 {
				t.Errorf("%s %s (%s)\n  C pmcd: %d %q, want %d\n  ours:   %d %q, want %d %q", tt.env, tt.line, tt.why, code, first, tt.c, c, f, tt.our, tt.our1)
			}
			if code == c && first == f {
				t.Errorf("%s %s (%s): no difference", tt.env, tt.line, tt.why)
			}
		})
	}
}
