package main

import (
	"bytes"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestOptions(t *testing.T) {
	tests := []struct {
		name string
		args string
		want func(*options)
	}{
		{"none", "", func(*options) {}},
		{"short", "-f -F -A -S -Q -c /c -n /n -p 1 -i 127.0.0.1 -s /s -l /l -x /x -L 100 -M 7 -C 8 -q 2 -t 0 -H h -U u -D pdu -T 3 -v", func(o *options) {
			o.foreground, o.verify, o.verifyRights, o.named = true, true, true, true
			o.managed, o.reqAuth, o.remoteCert, o.fatal = true, true, true, "/x"
			o.config, o.namespace.Path, o.socket, o.log = "/c", "/n", "/s", "/l"
			o.ports, o.interfaces = []int{1}, []string{"127.0.0.1"}
			o.maxPDU, o.maxMetrics, o.maxContexts = 100, 7, 8
			o.credsTimeout, o.timeout = 2*time.Second, 0
			o.hostname, o.user, o.debug, o.trace = "h", "u", "pdu", 3
		}},
		{"who may connect", "-S -Q", func(o *options) { o.reqAuth, o.remoteCert = true, true }},
		{"who may connect, long", "--reqauth --remotecert", func(o *options) { o.reqAuth, o.remoteCert = true, true }},
		{"joined", "-fv -p1,0x2 -p 3 -q9", func(o *options) {
			o.foreground, o.verify, o.verifyRights = true, true, true
			o.ports, o.credsTimeout = []int{1, 2, 3}, 9*time.Second
		}},
		{"long", "--foreground --managed --reqauth --remotecert --config=/c --namespace /n --port=7 --interface=INADDR_LOOPBACK --socket=/s --log=/l --username=u --hostname h --maxbytes=0x100 --maxctx=3 --maxmetric=4 --trace=1 --debug=pmns,fetch", func(o *options) {
			o.foreground, o.managed, o.reqAuth, o.remoteCert, o.named = true, true, true, true, true
			o.config, o.namespace.Path = "/c", "/n"
			o.ports, o.interfaces = []int{7}, []string{"loopback"}
			o.socket, o.log, o.user, o.hostname = "/s", "/l", "u", "h"
			o.maxPDU, o.maxContexts, o.maxMetrics = 256, 3, 4
			o.trace, o.debug = 1, "fetch,pmns"
		}},
		{"abbreviated", "--fore --verif --conf=/c --host=h", func(o *options) {
			o.foreground, o.verify, o.config, o.hostname, o.named = true, true, "/c", "h", true
		}},
		{"shorter than another", "--v --mana --maxc 2 --maxm 3", func(o *options) {
			o.verify, o.managed, o.maxContexts, o.maxMetrics = true, true, 2, 3
		}},
		{"the end", "-f -- ", func(o *options) { o.foreground = true }},
		{"the last counts", "-c /a -c /b -q 1 -q 2", func(o *options) {
			o.config, o.named, o.credsTimeout = "/b", true, 2*time.Second
		}},
		{"numbers as in C", "-q +3 -t 010 -T 0 -L 0x10 -M 010 -C 0x41", func(o *options) {
			o.credsTimeout, o.timeout = 3*time.Second, 10*time.Second
			o.maxPDU, o.maxMetrics, o.maxContexts = 16, 8, 65
		}},
		{"a number too large", "-q 99999999999 -L 99999999999", func(o *options) {
			o.credsTimeout, o.maxPDU = (1<<31-1)*time.Second, 1<<31-1
		}},
		{"empty ports", "-p 1,,2 -p ,3, -p 070", func(o *options) { o.ports = []int{1, 2, 3, 56} }},
		{"not a port", "-p 70000", func(o *options) {
			o.ports = []int{70000}
			o.mistakes = []string{"there is no port 70000"}
			o.warnings = o.mistakes
		}},
		{"not an address", "-i localhost -i INADDR_ANY", func(o *options) {
			o.interfaces = []string{"localhost", ""}
			o.mistakes = []string{"-i localhost: not a numeric address"}
			o.warnings = o.mistakes
		}},
		{"debug options add up", "-D pmns -D PDU,pmns", func(o *options) { o.debug = "pdu,pmns" }},
		{"any -N makes names unique, the last gives the file", "-N /a -n /b", func(o *options) {
			o.namespace.Path, o.namespace.Unique, o.named = "/b", true, true
		}},
		{"a name may be empty", "--config=", func(o *options) { o.named = true }},
		{"time for late agents", "--late-grace=20", func(o *options) { o.lateGrace = 20 * time.Second }},
		{"end of the helper", "--exit-without-helper", func(o *options) { o.endWithRoot = true }},
		{"what is compiled in", "-f --embedded", func(o *options) { o.foreground, o.embedded = true, true }},
		{"what follows a limit's digits does not count", "-L 64k", func(o *options) { o.maxPDU = 64 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, err := parseOptions(nil)
			if err != nil {
				t.Fatal(err)
			}
			tt.want(want)
			got, err := parseOptions(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

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
		{"-q 0 --bogus", 0, "pmcd: -q requires a positive numeric argument\npmcd: unrecognized option '--bogus'"},
		{"-q 0 -?", 0, "pmcd: -q requires a positive numeric argument"},
		{"-q 0", 1, "pmcd: -q requires a positive numeric argument"},
		{"--late-grace -1", 1, "pmcd: --late-grace requires a number of seconds (-1)"},
		{"-q 1x -t -1", 1, "pmcd: -q requires a positive numeric argument\npmcd: -t requires a positive numeric argument"},
		{"-T x", 1, "pmcd: -T requires a positive numeric argument"},
		{"-L 0", 1, "pmcd: -L requires a positive value"},
		{"-C x", 1, "pmcd: -C requires a positive value"},
		{"-M -3", 1, "pmcd: -M requires a positive value"},
		{"-p x", 1, "pmcd: -p requires a positive numeric argument (x)"},
		{"-p 1,-1", 1, "pmcd: -p requires a positive numeric argument (1,-1)"},
		{"-D nonsense", 1, "pmcd: unrecognized debug options specification (nonsense)"},
		{"-f --embedded -n /n", 1, "pmcd: --embedded does not go with -c, -n or -N"},
		{"-f extra -?", 1, "Usage: pmcd [options]"},
		{"-", 1, "Usage: pmcd [options]"},
	}
	for _, tt := range tests {
		var stderr bytes.Buffer
		code := run(strings.Fields(tt.args), &stderr)
		if code != tt.code || !strings.HasPrefix(stderr.String(), tt.text+"\n") {
			t.Errorf("%s: exit code %d; want %d, %q first:\n%s", tt.args, code, tt.code, tt.text, &stderr)
		}
		if failed := strings.HasSuffix(stderr.String(), notStarted); failed != (tt.code == 1) {
			t.Errorf("%s: %q at the end: %v", tt.args, notStarted, failed)
		}
		if !strings.Contains(stderr.String(), "--foreground") {
			t.Errorf("%s: no usage", tt.args)
		}
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
		want         string // all of the standard error output; "" is the usage
	}{
		{"-F --bogus", "", 1, "pmcd: not started: unrecognized option '--bogus'\n"},
		{"--bogus -q 0 x", "/n", 1, "pmcd: not started: unrecognized option '--bogus'; -q requires a positive numeric argument; unexpected argument \"x\"\n"},
		{"--verify --bogus", "/n", 1, "pmcd: not started: unrecognized option '--bogus'\n"},
		{"-F -c", "", 1, "pmcd: not started: option requires an argument -- 'c'\n"},
		{"-F -p x", "", 1, "pmcd: not started: -p requires a positive numeric argument (x)\n"},
		{"-F --help", "/n", 1, "pmcd: not started: --help is not for a service\n"},
		{"-V", "/n", 1, "pmcd: not started: --version is not for a service\n"},
		{"-F --help", "", 0, ""},
		{"-f --bogus", "", 0, ""},
	} {
		t.Setenv("NOTIFY_SOCKET", tt.socket)
		var stderr bytes.Buffer
		code := run(strings.Fields(tt.args), &stderr)
		if code != tt.code || tt.want != "" && stderr.String() != tt.want || tt.want == "" && !strings.Contains(stderr.String(), "--foreground") {
			t.Errorf("%s, NOTIFY_SOCKET=%s: exit code %d, want %d\n%s\nwant %s", tt.args, tt.socket, code, tt.code, &stderr, tt.want)
		}
	}
	t.Setenv("NOTIFY_SOCKET", "")
	fatal := filepath.Join(t.TempDir(), "fatal")
	if code := run([]string{"-F", "--bogus", "-x", fatal}, io.Discard); code != exitError || read(fatal) != "NOTE: pmcd not started due to errors!  unrecognized option '--bogus'\n" {
		t.Errorf("exit code %d, and the file of -x has %q", code, read(fatal))
	}
}

func TestEnvironment(t *testing.T) {
	tests := []struct {
		name string
		args string
		env  map[string]string
		want func(*options)
		err  string
	}{
		{
			"defaults", "-c /c", map[string]string{"PCP_VAR_DIR": "/var", "PCP_RUN_DIR": "/run"},
			func(o *options) {
				o.ports, o.socket = []int{44321}, "/run/pmcd.socket"
				o.namespace.Path, o.namespace.Default = "/var/pmns/root", true
				o.namespace.Include = []string{"/var/pmns"}
			}, "",
		},
		{
			"variables", "-p 2 -p 1", map[string]string{
				"PMCD_PORT": "1,3", "PMCD_LOCAL": "1", "PMCD_SOCKET": "/s", "PCP_RUN_DIR": "/run",
				"PMNS_DEFAULT": "/names", "PCP_PMCDCONF_PATH": "/conf",
			},
			func(o *options) {
				o.config, o.socket, o.local = "/conf", "/s", true
				o.ports, o.interfaces = []int{1, 3, 2}, []string{"loopback"}
				o.namespace.Path, o.namespace.Default = "/names", true
				o.warnings = []string{
					"nports=4 from PMCD_PORT=1,3 in environment",
					"duplicate client request port (1) will be ignored",
					"localhost only from PMCD_LOCAL=1 in environment",
				}
			}, "",
		},
		{
			"embedded", "--embedded", map[string]string{"PMCD_SOCKET": "/s", "PCP_PMCDCONF_PATH": "/conf", "PCP_VAR_DIR": "/var"},
			func(o *options) {
				o.config, o.log, o.embedded, o.socket, o.ports = "", "", true, "/s", []int{44321}
				o.interfaces, o.local = []string{"loopback"}, true
			}, "",
		},
		{
			"embedded, for others", "--embedded -i INADDR_ANY -i 10.0.0.1", nil,
			func(o *options) {
				o.config, o.log, o.embedded, o.ports = "", "", true, []int{44321}
				o.interfaces = []string{"", "10.0.0.1"}
			}, "",
		},
		{
			"what becomes of agents that fail", "-c /c -s /s", map[string]string{"PMCD_RESTART_AGENTS": "0", "PMCD_LATE_GRACE": "7"},
			func(o *options) {
				o.ports, o.socket, o.noRestart, o.lateGrace = []int{44321}, "/s", true, 7*time.Second
				o.namespace.Path, o.namespace.Default = "/pmns/root", true
				o.warnings = []string{"restartAgents=0 from PMCD_RESTART_AGENTS=0 in environment"}
			}, "",
		},
		{
			"an option wins, and only 0 is no", "-c /c -s /s --late-grace 0", map[string]string{"PMCD_RESTART_AGENTS": "00", "PMCD_LATE_GRACE": "7"},
			func(o *options) {
				o.ports, o.socket, o.lateGrace = []int{44321}, "/s", -1
				o.namespace.Path, o.namespace.Default = "/pmns/root", true
			}, "",
		},
		{"bad grace", "-c /c", map[string]string{"PMCD_LATE_GRACE": "soon"}, nil, "bad PMCD_LATE_GRACE"},
		{
			"backlog", "-c /c", map[string]string{"PMCD_MAXPENDING": "7", "PMCD_LOCAL": "0"},
			func(o *options) {
				o.ports, o.namespace.Path, o.namespace.Default = []int{44321}, "/pmns/root", true
				o.backlog = 7
				o.warnings = []string{"maxpending=7 from PMCD_MAXPENDING=7 in environment"}
			}, "",
		},
		{
			"no backlog", "-c /c", map[string]string{"PMCD_MAXPENDING": "-1", "PMCD_LOCAL": "no"},
			func(o *options) {
				o.ports, o.namespace.Path, o.namespace.Default = []int{44321}, "/pmns/root", true
				o.warnings = []string{"PMCD_MAXPENDING=-1 in environment is ignored: not a positive number"}
				o.mistakes = o.warnings
			}, "",
		},
		{"bad ports", "-c /c", map[string]string{"PMCD_PORT": "x"}, nil, "bad PMCD_PORT"},
		{"no configuration", "", nil, nil, "no configuration file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parseOptions(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			err = got.complete(func(name string) string { return tt.env[name] })
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, _ := parseOptions(nil)
			want.config, want.log = "/c", "pmcd.log"
			want.named = strings.Contains(tt.args, "-c")
			tt.want(want)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}
