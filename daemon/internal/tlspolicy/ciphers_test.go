package tlspolicy

import (
	"crypto/tls"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The table has the suites that package tls has for TLS 1.2.
func TestCipherTable(t *testing.T) {
	var got, want []uint16
	for _, c := range ciphers {
		got = append(got, c.id)
	}
	for _, s := range tls.CipherSuites() {
		if slices.Contains(s.SupportedVersions, tls.VersionTLS12) {
			want = append(want, s.ID)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}

// cipherLists have what parseCiphers does not use of them.
var cipherLists = []struct{ text, unused string }{
	{"DEFAULT", ""}, {"ALL", ""}, {"HIGH", ""}, {"HIGH:DEFAULT", "DEFAULT"}, {"DEFAULT:!MEDIUM", ""}, {"DEFAULT;!CHACHA20", ""},
	{"ECDH", ""}, {"ECDHE", ""}, {"EECDH", ""}, {"kECDHE", ""}, {"kEECDH", ""}, {"kECDH", "kECDH"}, {"kRSA:ECDHE", "kRSA"},
	{"aRSA", ""}, {"aECDSA", ""}, {"ECDSA", ""}, {"AES", ""}, {"AES128", ""}, {"AES256", ""}, {"AESGCM", ""}, {"CBC", ""},
	{"CHACHA20", ""}, {"SHA", ""}, {"SHA1", ""}, {"SHA256:AES", "SHA256"}, {"TLSv1.2", ""}, {"TLSv1.0", ""}, {"TLSv1", ""}, {"FIPS", ""},
	{"!AES128:ALL", ""}, {"ALL:-AES128", ""}, {"ALL:-AES:AES256", ""}, {"ALL:!AES:AES256", ""}, {"HIGH:!aNULL:!MD5:!RC4:!3DES:@STRENGTH", ""},
	{"HIGH:@SECLEVEL=1", "@SECLEVEL=1"}, {"ECDHE+AESGCM+aRSA", ""}, {"ECDHE+AESGCM:ECDHE+CHACHA20", ""}, {"ALL:+AES", ""},
	{"foo:ECDHE-RSA-AES128-GCM-SHA256", "foo"}, {"ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-SHA", ""},
	{"ALL:!ECDHE-RSA-AES128-SHA", ""}, {"ECDHE-RSA-AES256-GCM-SHA384,DHE-RSA-AES256-GCM-SHA384", "DHE-RSA-AES256-GCM-SHA384"},
	{":::AES", ""}, {"ECDHE-RSA-AES256-SHA384:AES", "ECDHE-RSA-AES256-SHA384"}, {"DEFAULT+AESGCM", ""}, {"ecdhe:AES", "ecdhe"},
	// Nothing is left of these.
	{"foo", "foo"}, {"!AES128:DEFAULT", "DEFAULT"}, {"ALL:!ECDHE", ""}, {"AES:!AES", ""}, {"+AES", ""}, {"@STRENGTH", ""}, {"", ""},
	{"AES128-SHA", "AES128-SHA"}, {"HIGH:!HIGH:AES", ""}, {"!", ""}, {"-:+:@", "@"},
}

// TestCipherLists compares with the program openssl, as far as pmcd has the ciphers.
func TestCipherLists(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Log("no openssl: the ciphers are not compared")
	}
	for _, tt := range cipherLists {
		list, unused := parseCiphers(tt.text)
		if got := strings.Join(unused, " "); got != tt.unused {
			t.Errorf("%q: %q is not used, want %q", tt.text, got, tt.unused)
		}
		if openssl == "" {
			continue
		}
		arg := ":" + tt.text // not an option
		if strings.HasPrefix(tt.text, "DEFAULT") || tt.text == "" {
			arg = tt.text
		}
		if arg == "" {
			arg = ":"
		}
		out, _ := exec.Command(openssl, "ciphers", "-s", "-tls1_2", arg).Output() // fails if there are none
		var want []string
		for _, name := range strings.Split(strings.TrimSpace(string(out)), ":") {
			if slices.ContainsFunc(ciphers, func(c cipher) bool { return c.name == name }) {
				want = append(want, name)
			}
		}
		var got []string
		for _, id := range list {
			i := slices.IndexFunc(ciphers, func(c cipher) bool { return c.id == id })
			got = append(got, ciphers[i].name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%q:\n got %q\nwant %q", tt.text, got, want)
		}
	}
}

func FuzzParseCiphers(f *testing.F) {
	for _, l := range cipherLists {
		f.Add(l.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		list, _ := parseCiphers(text)
		for i, id := range list {
			if slices.Contains(list[:i], id) || tls.CipherSuiteName(id)[:4] != "TLS_" {
				t.Fatalf("%q: %x", text, list)
			}
		}
	})
}
