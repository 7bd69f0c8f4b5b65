package pmapi

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// specs are host specifications and what they mean. Those up to the blank line are from
// PCPIntro(1).
var specs = []struct {
	text string
	want Spec
}{
	{"nas1.acme.com:44321,4321@firewall.acme.com:44322", Spec{Host: "nas1.acme.com", Ports: []int{44321, 4321}, Proxy: "firewall.acme.com", ProxyPort: 44322}},
	{"nas1.acme.com:44321@firewall.acme.com", Spec{Host: "nas1.acme.com", Ports: []int{44321}, Proxy: "firewall.acme.com"}},
	{"nas1.acme.com@firewall.acme.com", Spec{Host: "nas1.acme.com", Proxy: "firewall.acme.com"}},
	{"nas1.acme.com:44321", Spec{Host: "nas1.acme.com", Ports: []int{44321}}},
	{"[fe80::2ad2:44ff:fe88:e4f1%p2p1]", Spec{Host: "fe80::2ad2:44ff:fe88:e4f1%p2p1"}},
	{"192.168.0.103", Spec{Host: "192.168.0.103"}},
	{"pcps://app2.acme.com?container=cae8e6edc0d5", Spec{Host: "app2.acme.com", Secure: SecureEnforce, Container: "cae8e6edc0d5"}},
	{"pcps://nas1.acme.com:44321?username=tanya&method=gssapi", Spec{Host: "nas1.acme.com", Ports: []int{44321}, Secure: SecureEnforce, User: "tanya", Method: "GSSAPI"}},
	{"pcps://nas2.acme.com@firewalls.r.us?method=plain", Spec{Host: "nas2.acme.com", Proxy: "firewalls.r.us", Secure: SecureEnforce, Method: "PLAIN"}},
	{"pcp://nas3.acme.com", Spec{Host: "nas3.acme.com"}},
	{"192.168.0.103?container=cae8e6edc0d5,method=scram-sha-256", Spec{Host: "192.168.0.103", Container: "cae8e6edc0d5", Method: "SCRAM-SHA-256"}},
	{"unix:", Spec{Unix: true}},
	{"local:", Spec{Unix: true, Local: true}},

	{"", Spec{Unix: true, Local: true}},
	{"?user=me", Spec{Unix: true, Local: true, User: "me"}},
	{"unix://run/pcp/pmcd.socket", Spec{Unix: true, Socket: "/run/pcp/pmcd.socket"}},
	{"unix:/run/pcp/pmcd.socket", Spec{Unix: true, Socket: "/run/pcp/pmcd.socket"}},
	{"unix:///run/pcp/pmcd.socket?secure=enforce", Spec{Unix: true, Socket: "/run/pcp/pmcd.socket", Secure: SecureEnforce}},
	{"local://path/to/socket:?user=jimbo&pass=jones", Spec{Unix: true, Local: true, Socket: "/path/to/socket", User: "jimbo", Password: "jones"}},
	{"[::1]:4321,44321@[fe80::1%eth0]:44322", Spec{Host: "::1", Ports: []int{4321, 44321}, Proxy: "fe80::1%eth0", ProxyPort: 44322}},
	{"[host]:1", Spec{Host: "host", Ports: []int{1}}},
	{"pcp:host", Spec{Host: "host"}},
	{"pcp:///host/", Spec{Host: "host"}},
	{"host/?container=c", Spec{Host: "host", Container: "c"}},
	{"pcp", Spec{Host: "pcp"}},
	{"pcps", Spec{Host: "pcps"}},
	{"pcp://unix:44321", Spec{Host: "unix", Ports: []int{44321}}},
	{"host?user=a%26b%20c+d&password=p%25,x&realm=r", Spec{Host: "host", User: "a&b c+d", Password: "p%,x"}},
	{"host?pass=a=b,c=d", Spec{Host: "host", Password: "a=b,c=d"}},
	{"host?pass=a/b?c", Spec{Host: "host", Password: "a/b?c"}},
	{"host?secure=relaxed", Spec{Host: "host", Secure: SecureRelaxed}},
	{"pcps://host?secure=relaxed", Spec{Host: "host", Secure: SecureRelaxed}},
	{"host?secure", Spec{Host: "host", Secure: SecureEnforce}},
	{"host?", Spec{Host: "host"}},
}

func TestParseSpec(t *testing.T) {
	for _, tt := range specs {
		got, err := ParseSpec(tt.text)
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%q: %#v, %v; want %#v", tt.text, got, err, tt.want)
		}
	}
}

var badSpecs = []struct {
	text   string
	offset int
	want   string
}{
	{":44321", 0, "no host"},
	{"pcp://", 6, "no host"},
	{"host:", 5, "no port"},
	{"host:1,", 7, "no port"},
	{"host:x", 5, "not a port"},
	{"host:0", 5, "not a port"},
	{"host:65536", 5, "not a port"},
	{"host:+1", 5, "not a port"},
	{"host@", 5, "no proxy"},
	{"host@a@b", 6, `'@' is unexpected`},
	{"host@a:1,2", 8, `',' is unexpected`},
	{"[::1", 4, "no ] after the host"},
	{"[::1]x", 5, `'x' is unexpected`},
	{"::1", 0, "no host"},
	{"a b", 1, "a blank in the host"},
	{"a\n1", 1, "a blank in the host"},
	{"host\x00", 4, "a NUL"},
	{"host/path", 5, `'p' is unexpected`},
	{"host?usr=x", 5, "unknown attribute"},
	{"host?user=x&&", 12, "unknown attribute"},
	{"host?user=%zz", 10, "not encoded as in a URL"},
	{"host?user=%00", 10, "not encoded as in a URL"},
	{"host?secure=no", 12, "secure: not relaxed or enforce"},
	{"unix:/a:b", 8, `'b' is unexpected`},
}

func TestParseSpecErrors(t *testing.T) {
	for _, tt := range badSpecs {
		_, err := ParseSpec(tt.text)
		var e *SpecError
		if !errors.As(err, &e) || e.Offset != tt.offset || e.Err.Error() != tt.want {
			t.Errorf("%q: %v; want byte %d: %s", tt.text, err, tt.offset, tt.want)
		}
	}
}

func TestSpecString(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"pcps://[::1]:1,2@proxy:3?user=a%20b&pass=secret&container=c", "pcps://[::1]:1,2@proxy:3?container=c&user=a%20b"},
		{"unix:/run/x?secure=1", "unix://run/x?secure=enforce"},
		{"", "local:"},
		{"pcp://host", "host"},
	} {
		s, err := ParseSpec(tt.text)
		if err != nil || s.String() != tt.want {
			t.Errorf("%q: %q, %v; want %q", tt.text, s, err, tt.want)
		}
	}
}

// What is parsed means the same after String, apart from the password, which is not in the
// text of errors either.
func FuzzParseSpec(f *testing.F) {
	for _, tt := range specs {
		f.Add(tt.text)
	}
	for _, tt := range badSpecs {
		f.Add(tt.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseSpec(text)
		if err != nil {
			var e *SpecError
			if !errors.As(err, &e) || e.Offset < 0 || e.Offset > len(text) {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if s.Unix == (s.Host != "") || strings.ContainsAny(s.Host+s.Proxy, " \n\x00") {
			t.Fatalf("%q: %+v", text, s)
		}
		s.Password = ""
		again, err := ParseSpec(s.String())
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%q: %+v; then %q: %+v, %v", text, s, s, again, err)
		}
	})
}
