package cli

import (
	"net"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// warnings returns warnings without attributes.
func warnings(texts ...string) (list []Warning) {
	for _, text := range texts {
		list = append(list, Warning{Message: text})
	}
	return list
}

// rendered returns the texts of list as such warnings.
func rendered(list []Warning) (texts []Warning) {
	for _, w := range list {
		texts = append(texts, Warning{Message: w.String()})
	}
	return texts
}

func TestOptions(t *testing.T) {
	tests := []struct {
		name string
		args string
		want func(*Options)
	}{
		{"none", "", func(*Options) {}},
		{"short", "-f -F -A -S -Q -c /c -n /n -p 1 -i 127.0.0.1 -s /s -l /l -x /x -L 100 -M 7 -C 8 -q 2 -t 0 -H h -U u -D pdu -T 3 -v", func(o *Options) {
			o.Foreground, o.Verify, o.VerifyRights, o.Named = true, true, true, true
			o.Managed, o.ReqAuth, o.RemoteCert, o.FailureFile = true, true, true, "/x"
			o.Config, o.Namespace.Path, o.Socket, o.Log = "/c", "/n", "/s", "/l"
			o.Ports, o.Interfaces = []int{1}, []string{"127.0.0.1"}
			o.MaxPDU, o.MaxMetrics, o.MaxContexts = 100, 7, 8
			o.HandshakeTimeout, o.Timeout = 2*time.Second, 0
			o.Hostname, o.User, o.Debug, o.Trace = "h", "u", "pdu", 3
		}},
		{"joined", "-fv -p1,0x2 -p 3 -q9", func(o *Options) {
			o.Foreground, o.Verify, o.VerifyRights = true, true, true
			o.Ports, o.HandshakeTimeout = []int{1, 2, 3}, 9*time.Second
		}},
		{"long", "--foreground --managed --reqauth --remotecert --config=/c --namespace /n --port=7 --interface=INADDR_LOOPBACK --socket=/s --log=/l --username=u --hostname h --maxbytes=0x100 --maxctx=3 --maxmetric=4 --trace=1 --debug=pmns,fetch", func(o *Options) {
			o.Foreground, o.Managed, o.ReqAuth, o.RemoteCert, o.Named = true, true, true, true, true
			o.Config, o.Namespace.Path = "/c", "/n"
			o.Ports, o.Interfaces = []int{7}, []string{"loopback"}
			o.Socket, o.Log, o.User, o.Hostname = "/s", "/l", "u", "h"
			o.MaxPDU, o.MaxContexts, o.MaxMetrics = 256, 3, 4
			o.Trace, o.Debug = 1, "fetch,pmns"
		}},
		{"abbreviated", "--fore --verif --conf=/c --host=h", func(o *Options) {
			o.Foreground, o.Verify, o.Config, o.Hostname, o.Named = true, true, "/c", "h", true
		}},
		{"shorter than another", "--v --mana --maxc 2 --maxm 3", func(o *Options) {
			o.Verify, o.Managed, o.MaxContexts, o.MaxMetrics = true, true, 2, 3
		}},
		{"the end", "-f -- ", func(o *Options) { o.Foreground = true }},
		{"the last counts", "-c /a -c /b -q 1 -q 2", func(o *Options) {
			o.Config, o.Named, o.HandshakeTimeout = "/b", true, 2*time.Second
		}},
		{"numbers as in C", "-q +3 -t 010 -T 0 -L 0x10 -M 010 -C 0x41", func(o *Options) {
			o.HandshakeTimeout, o.Timeout = 3*time.Second, 10*time.Second
			o.MaxPDU, o.MaxMetrics, o.MaxContexts = 16, 8, 65
		}},
		{"a number too large", "-q 99999999999 -L 99999999999", func(o *Options) {
			o.HandshakeTimeout, o.MaxPDU = (1<<31-1)*time.Second, 1<<31-1
		}},
		{"empty ports", "-p 1,,2 -p ,3, -p 070", func(o *Options) { o.Ports = []int{1, 2, 3, 56} }},
		{"not a port", "-p 70000", func(o *Options) {
			o.Ports = []int{70000}
			o.Mistakes = []string{"port 70000 of -p is ignored: ports are 1 to 65535; without another one only the Unix domain socket is served"}
			o.Warnings = warnings(o.Mistakes...)
		}},
		{"not an address", "-i localhost -i INADDR_ANY", func(o *Options) {
			o.Interfaces = []string{"localhost", ""}
			o.Mistakes = []string{"-i localhost is ignored: an address is numeric, INADDR_ANY or INADDR_LOOPBACK; without another one only the Unix domain socket is served"}
			o.Warnings = warnings(o.Mistakes...)
		}},
		{"debug options add up", "-D pmns -D PDU,pmns", func(o *Options) { o.Debug = "pdu,pmns" }},
		{"any -N makes names unique, the last gives the file", "-N /a -n /b", func(o *Options) {
			o.Namespace.Path, o.Namespace.Unique, o.Named = "/b", true, true
		}},
		{"a name may be empty", "--config=", func(o *Options) { o.Named = true }},
		{"time for late agents", "--late-grace=20", func(o *Options) { o.LateGrace = 20 * time.Second }},
		{"longest reply", "--max-reply 1000000", func(o *Options) { o.MaxReply = 1000000 }},
		{"relays", "--relay=192.0.2.1,2001:db8::/48 --relay ::ffff:192.0.2.2,fe80::1", func(o *Options) {
			o.Relays = []netip.Prefix{
				netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("2001:db8::/48"),
				netip.MustParsePrefix("192.0.2.2/32"), netip.MustParsePrefix("fe80::1/128"),
			}
		}},
		{"what is compiled in, preferred", "-f --prefer-embedded", func(o *Options) { o.Foreground, o.Embedded, o.preferEmbedded = true, true, true }},
		{"a file is preferred to what is compiled in", "--prefer-embedded -c conf", func(o *Options) { o.Config, o.Named, o.preferEmbedded = "conf", true, true }},
		{"end of the helper", "--exit-without-helper", func(o *Options) { o.EndWithRoot = true }},
		{"what is compiled in", "-f --embedded", func(o *Options) { o.Foreground, o.Embedded = true, true }},
		{"what follows a limit's digits does not count", "-L 64k", func(o *Options) { o.MaxPDU = 64 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want, err := Parse(nil)
			if err != nil {
				t.Fatal(err)
			}
			tt.want(want)
			got, err := Parse(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			got.Warnings = rendered(got.Warnings)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}

// Without pcp.conf, and on a host whose unit prefers what is compiled in, -c and -n do not open
// the host to the network. With pcp.conf they do, as in C pmcd.
func TestDefaultAddresses(t *testing.T) {
	for _, tt := range []struct {
		args    string
		pcpConf bool
		want    []string
		local   bool // pmcd.feature.local
	}{
		{"-c /c -n /n", false, []string{"loopback"}, true},
		{"-c /c -n /n -p 1", false, []string{"loopback"}, true},
		{"-c /c -n /n -i INADDR_ANY", false, []string{""}, false},
		{"-c /c -n /n", true, nil, false},
		{"--prefer-embedded -c /c -n /n", true, []string{"loopback"}, true},
		{"--prefer-embedded -c /c -n /n -i 192.0.2.1", true, []string{"192.0.2.1"}, false},
		{"--embedded", true, []string{"loopback"}, true},
	} {
		opt, err := Parse(strings.Fields(tt.args))
		if err != nil {
			t.Fatal(err)
		}
		opt.WithoutPCPConf = !tt.pcpConf
		if err := opt.Complete(func(string) string { return "" }); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(opt.Interfaces, tt.want) || opt.Local != tt.local {
			t.Errorf("%s, pcp.conf: %v: got %q, %v, want %q, %v", tt.args, tt.pcpConf, opt.Interfaces, opt.Local, tt.want, tt.local)
		}
	}
}

// What has no effect because sockets are inherited is a mistake.
func TestInherit(t *testing.T) {
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 44321} }
	unix := &net.UnixAddr{Net: "unix", Name: "/run/pcp/pmcd.socket"}
	for _, tt := range []struct {
		args  string
		env   map[string]string
		addrs []net.Addr
		want  []string // how each mistake begins
	}{
		{"", nil, []net.Addr{tcp("127.0.0.1"), unix}, nil},
		{"-i 192.0.2.1 -p 7 -s /s", nil, nil, nil},
		{"-i 192.0.2.1", map[string]string{"PMCD_SOCKET": "/s"}, []net.Addr{tcp("127.0.0.1"), tcp("::1")}, []string{
			"-i without effect: the service manager has opened the ports 127.0.0.1:44321, [::1]:44321; change ListenStream= (systemctl edit pmcd.socket), or "}},
		{"-i 192.0.2.1 -s /s", nil, []net.Addr{unix}, []string{"the socket /s of -s or PMCD_SOCKET is not served: the service manager has opened /run/pcp/pmcd.socket; change "}},
		{"-p 7 -s /run/pcp/pmcd.socket", map[string]string{"PMCD_PORT": "8"}, []net.Addr{unix, tcp("::1")}, []string{"-p, PMCD_PORT without effect: "}},
		{"", map[string]string{"PMCD_LOCAL": "1"}, []net.Addr{tcp("127.0.0.1")}, nil},
		{"", map[string]string{"PMCD_LOCAL": "1"}, []net.Addr{tcp("0.0.0.0")}, []string{"PMCD_LOCAL without effect: "}},
	} {
		opt, err := Parse(append([]string{"--embedded"}, strings.Fields(tt.args)...))
		if err == nil {
			err = opt.Complete(func(name string) string { return tt.env[name] })
		}
		if err != nil {
			t.Fatal(err)
		}
		opt.Inherit(tt.addrs)
		if !slices.EqualFunc(opt.Mistakes, tt.want, strings.HasPrefix) {
			t.Errorf("%s %v: got %q, want %q", tt.args, tt.env, opt.Mistakes, tt.want)
		}
	}
}

// Warnings of a kind have the same message, and differ in their attributes.
func TestWarningMessages(t *testing.T) {
	opt, err := Parse([]string{"-p", "70000,70001"})
	if err != nil {
		t.Fatal(err)
	}
	w := opt.Warnings
	if len(w) != 2 || w[0].Message != w[1].Message || w[0].String() == w[1].String() {
		t.Errorf("got %+v", w)
	}
}

func TestEnvironment(t *testing.T) {
	tests := []struct {
		name string
		args string
		env  map[string]string
		want func(*Options)
		err  string
	}{
		{
			"defaults", "-c /c", map[string]string{"PCP_VAR_DIR": "/var", "PCP_RUN_DIR": "/run"},
			func(o *Options) {
				o.Ports, o.Socket = []int{44321}, "/run/pmcd.socket"
				o.Namespace.Path, o.Namespace.Default = "/var/pmns/root", true
				o.Namespace.Include = []string{"/var/pmns"}
			}, "",
		},
		{
			"variables", "-p 2 -p 1", map[string]string{
				"PMCD_PORT": "1,3", "PMCD_LOCAL": "1", "PMCD_SOCKET": "/s", "PCP_RUN_DIR": "/run",
				"PMNS_DEFAULT": "/names", "PCP_PMCDCONF_PATH": "/conf",
			},
			func(o *Options) {
				o.Config, o.Socket, o.Local = "/conf", "/s", true
				o.Ports, o.Interfaces = []int{1, 3, 2}, []string{"loopback"}
				o.Namespace.Path, o.Namespace.Default = "/names", true
				o.Warnings = warnings(
					"nports=4 from PMCD_PORT=1,3 in environment",
					"duplicate client request port (1) will be ignored",
					"localhost only from PMCD_LOCAL=1 in environment",
				)
			}, "",
		},
		{
			"embedded", "--embedded", map[string]string{"PMCD_SOCKET": "/s", "PCP_PMCDCONF_PATH": "/conf", "PCP_VAR_DIR": "/var"},
			func(o *Options) {
				o.Config, o.Log, o.Embedded, o.Socket, o.Ports = "", "", true, "/s", []int{44321}
				o.TLSConf = ""
				o.Interfaces, o.Local = []string{"loopback"}, true
			}, "",
		},
		{
			"embedded is preferred, as in the unit", "--prefer-embedded", nil,
			func(o *Options) {
				o.Config, o.Log, o.Embedded, o.preferEmbedded, o.Ports = "", "", true, true, []int{44321}
				o.Interfaces, o.Local = []string{"loopback"}, true
			}, "",
		},
		{
			"embedded, for others", "--embedded -i INADDR_ANY -i 10.0.0.1", map[string]string{"PCP_TLSCONF_PATH": "/tls.conf"},
			func(o *Options) {
				o.Config, o.Log, o.Embedded, o.Ports = "", "", true, []int{44321}
				o.TLSConf = "/tls.conf"
				o.Interfaces = []string{"", "10.0.0.1"}
			}, "",
		},
		{
			"what becomes of agents that fail", "-c /c -s /s", map[string]string{"PMNS_DEFAULT": "/names", "PMCD_RESTART_AGENTS": "0"},
			func(o *Options) {
				o.Ports, o.Socket, o.NoRestart = []int{44321}, "/s", true
				o.Namespace.Path, o.Namespace.Default = "/names", true
				o.Warnings = warnings("restartAgents=0 from PMCD_RESTART_AGENTS=0 in environment")
			}, "",
		},
		{
			"only 0 and 1 are valid", "-c /c -s /s --late-grace 0", map[string]string{"PMNS_DEFAULT": "/names", "PMCD_RESTART_AGENTS": "no"},
			func(o *Options) {
				o.Ports, o.Socket, o.LateGrace = []int{44321}, "/s", -1
				o.Namespace.Path, o.Namespace.Default = "/names", true
				o.Mistakes = []string{"PMCD_RESTART_AGENTS=no in environment is ignored: 0 (agents that fail are not started again) and 1 are valid"}
				o.Warnings = warnings(o.Mistakes...)
			}, "",
		},
		{
			"longest reply", "-c /c -s /s", map[string]string{"PMNS_DEFAULT": "/names", "PMCD_MAX_REPLY": "65536", "PMCD_RESTART_AGENTS": "1"},
			func(o *Options) {
				o.Ports, o.Socket, o.MaxReply = []int{44321}, "/s", 65536
				o.Namespace.Path, o.Namespace.Default = "/names", true
			}, "",
		},
		{
			"an option for the longest reply wins", "-c /c -s /s --max-reply=100000", map[string]string{"PMNS_DEFAULT": "/names", "PMCD_MAX_REPLY": "x"},
			func(o *Options) {
				o.Ports, o.Socket, o.MaxReply = []int{44321}, "/s", 100000
				o.Namespace.Path, o.Namespace.Default = "/names", true
			}, "",
		},
		{"bad longest reply", "-c /c", map[string]string{"PMCD_MAX_REPLY": "65535"}, nil, `bad PMCD_MAX_REPLY in the environment: "65535": a number of bytes, 65536 or more, is valid`},
		{
			"backlog", "-c /c", map[string]string{"PMNS_DEFAULT": "/names", "PMCD_MAXPENDING": "7", "PMCD_LOCAL": "0"},
			func(o *Options) {
				o.Ports, o.Namespace.Path, o.Namespace.Default = []int{44321}, "/names", true
				o.Backlog = 7
				o.Warnings = warnings("maxpending=7 from PMCD_MAXPENDING=7 in environment")
			}, "",
		},
		{
			"tls.conf", "-c /c", map[string]string{"PMNS_DEFAULT": "/names", "PCP_TLSCONF_PATH": "/tls.conf"},
			func(o *Options) {
				o.Ports, o.Namespace.Path, o.Namespace.Default = []int{44321}, "/names", true
				o.TLSConf = "/tls.conf"
			}, "",
		},
		{
			"no backlog", "-c /c", map[string]string{"PMNS_DEFAULT": "/names", "PMCD_MAXPENDING": "-1", "PMCD_LOCAL": "no"},
			func(o *Options) {
				o.Ports, o.Namespace.Path, o.Namespace.Default = []int{44321}, "/names", true
				o.Mistakes = []string{
					"PMCD_LOCAL=no in environment is ignored: 1 (localhost only) and 0 are valid",
					"PMCD_MAXPENDING=-1 in environment is ignored: not a positive number",
				}
				o.Warnings = warnings(o.Mistakes...)
			}, "",
		},
		{"bad ports", "-c /c", map[string]string{"PMCD_PORT": "x"}, nil, `bad PMCD_PORT in the environment: "x": port numbers, separated by commas, are valid`},
		{"no configuration", "", nil, nil, "no configuration file"},
		{
			"no name space", "-c /c", map[string]string{"PCP_CONF": "/none"}, nil,
			"no name space: neither -n nor pcp.conf names one: PCP_CONF: open /none: no such file or directory; give -n, such as -n /usr/share/pmcd/root",
		},
		{
			"a pcp.conf without name space", "-c /c", map[string]string{"PCP_CONF": os.DevNull}, nil,
			"no name space: neither -n nor pcp.conf names one: it does not set PCP_VAR_DIR; give -n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Parse(strings.Fields(tt.args))
			if err != nil {
				t.Fatal(err)
			}
			err = got.Complete(func(name string) string { return tt.env[name] })
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want, _ := Parse(nil)
			want.Config, want.Log, want.TLSConf = "/c", "pmcd.log", "/etc/pcp/tls.conf"
			want.Named = strings.Contains(tt.args, "-c")
			got.addressesFrom, got.socketGiven, got.localGiven = nil, false, false // see TestInherit
			tt.want(want)
			got.Warnings = rendered(got.Warnings)
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}
