package pmcdconf

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/access"
)

// hostVectors are rules and the results of pmcd 6.0.3 on a host with the name vm and
// the address 127.0.0.1. The peers are A 127.0.0.1, B 127.0.0.2, C 192.0.2.2, D ::1, E
// fd00::2 and U at the Unix domain socket. The results are "f" fetch, "s" store and "R"
// refused.
var hostVectors = []struct {
	conf, access string
	want         string
}{
	{"", "", "fs fs fs fs fs fs"},
	{`disallow ".*" : store; disallow ":*" : store; allow "local:*" : all;`, "", "fs f- f- fs f- fs"},
	{`disallow * : all;`, "", "R R R R R R"},
	{`disallow * : store;`, "", "f- f- f- f- f- f-"},
	{`allow localhost : all; disallow .* : all; disallow ":*" : all;`, "", "fs R R fs R fs"},
	{`allow "unix:" : all; disallow ".*" : all; disallow ":*" : all;`, "", "R R R R R fs"},
	{`disallow 127.0.0.1 : all;`, "", "R fs fs R fs fs"},
	{`disallow 127.0.0.2 : all;`, "", "fs R fs fs fs fs"},
	{`disallow 127.* : all;`, "", "R R fs R fs fs"},
	{`disallow "::1" : all;`, "", "fs fs fs fs fs fs"},
	{`disallow vm : all;`, "", "R fs fs R fs fs"},
	{`disallow 192.0.2.* : store; allow 192.0.2.2 : all;`, "", "fs fs fs fs fs fs"},
	{`allow 192.0.2.* : all; disallow 192.* : all;`, "", "fs fs fs fs fs fs"},
	{`allow 192.* : all except store;`, "", "fs fs f- fs fs fs"},
	{`disallow 192.0.2.2 : all except fetch;`, "", "fs fs f- fs fs fs"},
	{`allow 192.0.2.2 : fetch; disallow * : all;`, "", "R R f- R R R"},
	{`disallow * : all; allow 192.0.2.2 : fetch;`, "", "R R f- R R R"},
	{`allow 192.0.2.2 : fetch; disallow 192.0.2.2 : store;`, "", "fs fs f- fs fs fs"},
	{`disallow ":*" : all; allow "fd00::2" : fetch;`, "", "fs fs fs fs f- fs"},
	{`disallow "fd00::*" : all;`, "", "fs fs fs fs R fs"},
	{`disallow "fd00:*" : all;`, "", "fs fs fs fs R fs"},
	{`disallow "unix:/foo" : store;`, "", "fs fs fs fs fs f-"},
	{`ALLOW HOSTS * : ALL EXCEPT STORE ;`, "", "f- f- f- f- f- f-"},
	{"", `disallow 192.0.2.2 : store;`, "fs fs f- fs fs fs"},
	{`allow 192.0.2.2 : fetch;`, `disallow 192.0.2.2 : store;`, "fs fs f- fs fs fs"},
	{`allow ` + nohost + ` : all; disallow 192.0.2.2 : store;`, "", "fs fs f- fs fs fs"},
}

// refusedVectors are rules with which pmcd 6.0.3 does not start.
var refusedVectors = []string{
	`allow host 192.0.2.2 : fetch, store; disallow host 192.0.2.2 : all except fetch;`,
	`disallow *: all; allow .*: fetch;`,
	`allow *: frobnicate;`,
	``,
	`allow *: all`,
	`permit *: all;`,
	`allow ` + nohost + ` : all;`,
	`allow 129.127.*.* : all;`,
	`allow fe80* : all;`,
	`allow *.melbourne : all;`,
	`allow fd00::2 : all;`,
	`allow unix: : all;`,
	`disallow *: store, maximum 3 connections;`,
	`allow *: fetch, unlimited connections;`,
	`allow *: maximum 0 connections;`,
	`allow *: all, store;`,
	`allow *: fetch, ;`,
	`allow 192.0.2.2 192.0.2.3 : all;`,
	"allow * : all;\nb 2 dso f /x\n",
	`allow localhost: all; disallow 127.0.0.1: all;`,
}

// withRules returns a configuration with an access section.
func withRules(rules string) string {
	return "a 1 dso f /x\n[ACCESS]\n" + rules + "\n"
}

func (tt *fileCase) parse(t *testing.T, opt Options) (*Config, error) {
	t.Helper()
	conf, err := ParseFile(t.Context(), tt.write(t), opt)
	if conf == nil {
		t.Fatal(err)
	}
	return conf, err
}

func hostVector(i int) *fileCase {
	v := hostVectors[i]
	c := &fileCase{name: v.conf + v.access, conf: "a 1 dso f /x\n", access: v.access}
	if v.conf != "" {
		c.conf = withRules(v.conf)
	}
	return c
}

func result(denied access.Op) string {
	switch denied {
	case 0:
		return "fs"
	case access.Store:
		return "f-"
	case access.All:
		return "R"
	}
	return denied.String()
}

func TestHostVectors(t *testing.T) {
	peers := []access.Peer{
		{Family: access.Inet, Addr: netip.MustParseAddr("127.0.0.1")},
		{Family: access.Inet, Addr: netip.MustParseAddr("127.0.0.2")},
		{Family: access.Inet, Addr: netip.MustParseAddr("192.0.2.2")},
		{Family: access.IPv6, Addr: netip.MustParseAddr("::1")},
		{Family: access.IPv6, Addr: netip.MustParseAddr("fd00::2")},
		{Family: access.Unix},
	}
	for i, v := range hostVectors {
		tt := hostVector(i)
		t.Run(tt.name, func(t *testing.T) {
			conf, err := tt.parse(t, fakeOptions)
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range strings.Fields(v.want) {
				if got := result(conf.Access.Host(peers[i])); got != want {
					t.Errorf("peer %c: got %s, want %s\n%v", "ABCDEU"[i], got, want, conf.Access)
				}
			}
		})
	}
	for _, rules := range refusedVectors {
		t.Run(rules, func(t *testing.T) {
			if _, err := (&fileCase{conf: withRules(rules)}).parse(t, fakeOptions); err == nil {
				t.Errorf("accepted: %s", rules)
			}
		})
	}
}

// Everything is denied to a peer without a user here. With pmcd 6.0.3 its session
// continues after the error.
func TestAccountVectors(t *testing.T) {
	unix := func(id uint32) access.Peer {
		return access.Peer{Family: access.Unix, HasUser: true, UID: id, GID: id}
	}
	peers := []access.Peer{
		{Family: access.Inet, Addr: netip.MustParseAddr("127.0.0.1")},
		unix(0), unix(accounts["pcp"]), unix(accounts["nobody"]),
	}
	for _, tt := range []struct{ rules, want string }{
		{`-S`, "R fs fs fs"},
		{`allow users pcp : all;`, "R R fs R"},
		{`allow user pcp : fetch; disallow user pcp : store; allow user root : all;`, "R fs f- R"},
		{`allow users * : fetch; disallow user pcp : all;`, "R fs R fs"},
		{`disallow user pcp : all; allow users * : fetch;`, "R fs R fs"}, // crashes pmcd 6.0.3
		{`disallow users * : store;`, "R f- f- f-"},
		{`disallow user nobody : all;`, "R R R R"},
		{`allow groups pcp : all;`, "R R fs R"},
		{`allow user root : all, maximum 1 connections;`, "R fs R R"},
	} {
		opt := fakeOptions
		c := &fileCase{conf: withRules(tt.rules)}
		if tt.rules == "-S" {
			opt.CredsRequired = true
			c.conf = "a 1 dso f /x\n"
		}
		conf, err := c.parse(t, opt)
		if err != nil || !conf.Access.CredsRequired() {
			t.Errorf("%s: %v", tt.rules, err)
			continue
		}
		for i, want := range strings.Fields(tt.want) {
			denied, err := conf.Access.Account(peers[i])
			if got := result(denied); got != want || err != nil {
				t.Errorf("%s: peer %c: got %s, want %s (%v)", tt.rules, "TRPN"[i], got, want, err)
			}
		}
	}
}

// Limits as measured, except for loopback peers: pmcd 6.0.3 counts these several times
// and admits fewer.
func TestLimitVectors(t *testing.T) {
	for _, tt := range []struct{ rules, order, want string }{
		{`allow * : all, maximum 2 connections;`, "192.0.2.2 192.0.2.2 192.0.2.2", "ok ok limit"},
		{`allow * : all, maximum 3 connections;`, "127.0.0.1 127.0.0.1 ::1 127.0.0.1", "ok ok ok limit"},
		{`allow * : all, maximum 3 connections;`, "unix unix unix unix", "ok ok ok limit"},
		{`allow host 192.0.2.2 : all, maximum 3 connections; allow host .* : all except store, maximum 2 connections;`,
			"127.0.0.2 192.0.2.2 127.0.0.2 192.0.2.2 192.0.2.2 192.0.2.2", "ok ok limit ok ok limit"},
	} {
		conf, err := (&fileCase{conf: withRules(tt.rules)}).parse(t, fakeOptions)
		if err != nil {
			t.Errorf("%s: %v", tt.rules, err)
			continue
		}
		c := access.NewCounter(conf.Access)
		var got []string
		for i, s := range strings.Fields(tt.order) {
			p := access.Peer{Family: access.Unix}
			if s != "unix" {
				p.Family, p.Addr = access.Inet, netip.MustParseAddr(s)
				if p.Addr.Is6() {
					p.Family = access.IPv6
				}
			}
			switch err := c.Admit(new(access.Conn), i, p); {
			case err == nil:
				got = append(got, "ok")
			case errors.Is(err, access.ErrConnLimit):
				got = append(got, "limit")
			default:
				got = append(got, err.Error())
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s: got %s, want %s", tt.rules, tt.order, s, tt.want)
		}
	}
}

func TestPeerVectors(t *testing.T) {
	pmcd := oracle(t)
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for i := range hostVectors {
		c := hostVector(i)
		t.Run(c.name, func(t *testing.T) {
			c.conf = strings.ReplaceAll(c.conf, " vm ", " "+name+" ")
			compare(t, pmcd, c)
		})
	}
	for _, rules := range refusedVectors {
		t.Run(rules, func(t *testing.T) {
			compare(t, pmcd, &fileCase{name: rules, conf: withRules(rules)})
		})
	}
}
