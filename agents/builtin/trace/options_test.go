package trace

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/access"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

func TestParsePeriod(t *testing.T) {
	for in, want := range map[string]time.Duration{
		"60": time.Minute, "30 seconds": 30 * time.Second, "1min": time.Minute, "1 min 30sec": 90 * time.Second, "1min30": 90 * time.Second,
		"2h": 2 * time.Hour, "1.5 hours": 90 * time.Minute, "1.1h": 66 * time.Minute, "1 Day": 24 * time.Hour, "1.9": time.Second, "1500msec": time.Second,
		"": 0, "0": 0, "0.5sec": 0, "sec": 0, "-5": 0, "1 fortnight": 0, "400 days": 0, "1e3": 0, "1..5": 0, "99999999999999999999": 0, "NaN": 0,
	} {
		got, err := parsePeriod(in)
		if got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: got %v, %v, want %v", in, got, err, want)
		}
	}
}

func TestParseOthers(t *testing.T) {
	for in, want := range map[string]pdu.Units{
		"0,0,0,0,0,0": 0, "1,-1,0,2,3,0": pdu.NewUnits(1, -1, 0, 2, 3, 0), "0,0,1,0,0,-3": pdu.NewUnits(0, 0, 1, 0, 0, -3),
	} {
		if got, err := parseUnits(in); got != want || err != nil {
			t.Errorf("%s: %v, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "1,2,3,4,5", "1,2,3,4,5,6,7", "9,0,0,0,0,0", "0,0,0,-1,0,0", "0,0,0,0,6,0", "a,0,0,0,0,0"} {
		if got, err := parseUnits(in); err == nil {
			t.Errorf("%q: %v", in, got)
		}
	}
	for in, want := range map[string]int{"1": 1, "65535": 65535, "0": 0, "65536": 0, "http": 0, "": 0} {
		if got, err := parsePort(in); got != want || (err == nil) != (want > 0) {
			t.Errorf("port %q: %v, %v", in, got, err)
		}
	}
	for in, want := range map[string]int{"1": 1, "1000": 1000, "0": 0, "1001": 0, "x": 0} {
		if got, err := parseBuckets(in); got != want || (err == nil) != (want > 0) {
			t.Errorf("buckets %q: %v, %v", in, got, err)
		}
	}
	for in, want := range map[string]accessRule{
		"allow:host:3": {true, "host", 3}, "Allow:*:0": {true, "*", 0}, "disallow:192.168.*": {false, "192.168.*", 0}, "DISALLOW:fe80::1": {false, "fe80::1", 0},
		"allow:::1:2": {true, "::1", 2}, "Disallow:1.2.3.4:3": {false, "1.2.3.4", 0},
		"allow:host": {}, "allow:host:x": {}, "allow:host:-1": {}, "allow::1": {}, "disallow:": {}, "foo:host": {}, "": {}, "disallow:a b": {}, "disallow:a\"b": {},
	} {
		got, err := parseAccess(in)
		if (err == nil) != (want != accessRule{}) || err == nil && got != want {
			t.Errorf("access %q: %+v, %v", in, got, err)
		}
	}
}

// Options are completed from the environment, and wrong ones are refused.
func TestSetDefaults(t *testing.T) {
	var log strings.Builder
	o := Options{Log: slog.New(slog.NewTextHandler(&log, nil))}
	t.Setenv(portVar, "x")
	if err := o.setDefaults(); err != nil || o.Port != 4323 || o.Period != time.Minute || o.Buckets != 5 || !strings.Contains(log.String(), "x is not a port number") {
		t.Errorf("got %+v, %v, log: %s", o, err, log.String())
	}
	t.Setenv(portVar, "4000")
	for port, want := range map[int]int{0: 4000, 5000: 5000} {
		o := Options{Port: port}
		if err := o.setDefaults(); err != nil || o.Port != want {
			t.Errorf("%d: got %d, %v", port, o.Port, err)
		}
	}
	for _, o := range []Options{{Period: 500 * time.Millisecond}, {Period: -time.Second}, {Buckets: -1}, {Buckets: 1001}, {Access: []string{"x"}}} {
		if _, err := Open(Domain, o); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
}

func TestOwnHost(t *testing.T) {
	for _, tt := range []struct {
		peer, local string
		want        bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{"127.0.0.1", "127.0.1.1", true},
		{"127.9.9.9", "127.0.0.1", true},
		{"::1", "::1", true},
		{"10.0.0.7", "10.0.0.7", true},
		{"fd00::7", "fd00::7", true},
		{"fe80::7%eth0", "fe80::7%eth0", true},
		{"10.0.0.8", "10.0.0.7", false},
		{"10.0.0.8", "127.0.0.1", false},
		{"fd00::8", "fd00::7", false},
		{"fe80::7%eth1", "fe80::7%eth0", false},
	} {
		t.Run(tt.peer+" to "+tt.local, func(t *testing.T) {
			if got := ownHost(netip.MustParseAddr(tt.peer), netip.MustParseAddr(tt.local)); got != tt.want {
				t.Errorf("%s to %s: %v", tt.peer, tt.local, got)
			}
		})
	}
	if ownHost(netip.Addr{}, netip.Addr{}) {
		t.Error("an unknown peer is on this host")
	}
}

// names is a resolver.
type names struct {
	resolver
	addrs map[string]string
}

func (n names) Hosts(name string) ([]netip.Addr, error) {
	a, ok := n.addrs[name]
	if !ok {
		return nil, errors.New("no such host: " + name)
	}
	return []netip.Addr{netip.MustParseAddr(a)}, nil
}

var _ pmcdconf.Resolver = names{}

// Rules decide about hosts as those of pmcd.conf do, and each connection counts once.
func TestRules(t *testing.T) {
	const denied, full = "access denied", "limit"
	for _, tt := range []struct {
		rules string
		peers string // connections in turn, which stay
		want  []string
		err   string // of newPeers
	}{
		{"disallow:10.0.0.1", "10.0.0.1 10.0.0.2", []string{denied, ""}, ""},
		{"allow:10.0.0.1:0", "10.0.0.1 10.0.0.2", []string{"", ""}, ""},
		{"disallow:* allow:10.0.*:0", "10.0.0.1 11.0.0.2 fd00::1", []string{"", denied, denied}, ""},
		{"allow:10.0.0.1:2", "10.0.0.1 10.0.0.1 10.0.0.1", []string{"", "", full}, ""},
		{"allow:127.0.0.1:1", "127.0.0.1 127.0.0.1", []string{"", full}, ""},
		{"disallow:host", "10.9.9.9 10.0.0.1", []string{denied, ""}, ""},
		{"disallow:fd00::1", "fd00::1 fd00::2", []string{denied, ""}, ""},
		{"disallow:nosuchhost", "", nil, "no address for a host of -A: no such host: nosuchhost"},
		{"allow:10.0.0.1:1 disallow:10.0.0.1", "", nil, "clash"},
		{"allow:*.*:1", "", nil, "wildcard"},
	} {
		var rules []accessRule
		for r := range strings.FieldsSeq(tt.rules) {
			a, err := parseAccess(r)
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, a)
		}
		p, err := newPeers(rules, names{addrs: map[string]string{"host": "10.9.9.9", "localhost": "127.0.0.1"}})
		if err != nil || tt.err != "" {
			if tt.err == "" || err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v, want %q", tt.rules, err, tt.err)
			}
			continue
		}
		for i, addr := range strings.Fields(tt.peers) {
			_, err := p.admitAddr(netip.MustParseAddr(addr), netip.Addr{}, i)
			if want := tt.want[i]; (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: connection %d from %s: %v, want %q", tt.rules, i, addr, err, want)
			}
			if err != nil && errors.Is(err, access.ErrConnLimit) != (tt.want[i] == full) {
				t.Errorf("%s: %v", tt.rules, err)
			}
		}
	}
}

// Arguments of options are errors or within the limits.
func FuzzOptions(f *testing.F) {
	for _, s := range []string{"30 seconds", "1min 30sec", "1e9", ".5h", "1,0,0,2,0,0", "-8,7,7,6,5,-8", "allow:10.1.*:0", "disallow:h", "allow:::1:5", "4323", "60"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if d, err := parsePeriod(s); err == nil && (d < time.Second || d > maxPeriod || d%time.Second != 0) {
			t.Errorf("the period %v", d)
		}
		if n, err := parseBuckets(s); err == nil && (n < 1 || n > maxBuckets) {
			t.Errorf("%d buckets", n)
		}
		if n, err := parsePort(s); err == nil && (n < 1 || n > 65535) {
			t.Errorf("port %d", n)
		}
		parseUnits(s)
		r, err := parseAccess(s)
		if err != nil {
			return
		}
		if r.host == "" || r.max < 0 || strings.ContainsAny(r.host, "\" \n;") {
			t.Errorf("the rule %+v", r)
		}
		// The host cannot change the rules around it.
		p, err := newPeers([]accessRule{r}, names{})
		if err == nil && p.rules == nil {
			t.Errorf("no rules of %+v", r)
		}
	})
}
