package tlsconf

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// describe returns the keys that are set, with their lines.
func describe(c *Conf) string {
	var s []string
	for _, f := range c.fields() {
		if v := f.value; v.IsSet() {
			s = append(s, fmt.Sprintf("%s=%q@%d", v.Key, v.Text, v.Pos.Line))
		}
	}
	return strings.Join(s, " ")
}

// TestParse has what PCP's pmcd 6.0.3 makes of these lines. Only a last line without a
// newline differs.
func TestParse(t *testing.T) {
	const v1 = `tls-cert-file="/v1"@1`
	for _, tt := range []struct {
		text, want string
		warnings   []string // what each has
	}{
		{"", "", nil},
		{"tls-cert-file=/v1\n", v1, nil},
		{"  tls-cert-file \t:  /v1 \n", v1, nil},
		{"tls-cert-file=/v1\r\n", v1, nil},
		{"tls-cert-file=/v1\r", v1, nil},
		{"tls-cert-file\f=\v/v1\f\n", v1, nil},
		{"# comment\n\n \t\n#tls-cert-file=/v1", "", nil},
		{"tls-cert-file=/v1 # comment\n", v1, nil},
		{"tls-cert-file=/v1#x\n", v1, []string{`ends at the #: it is "/v1"`}},
		{"tls-cert-file=/v1#x", v1, []string{`ends at the #: it is "/v1"`}},
		{"tls-cert-file=#/v1\n", "", []string{"tls-cert-file has no value"}},
		{"tls-cert#-file=/v1\n", "", []string{`"tls-cert" has neither = nor :`}},
		{"tls-cert-file=a=b:c\n", `tls-cert-file="a=b:c"@1`, nil},
		{"tls-cert-file==/v1\n", `tls-cert-file="=/v1"@1`, []string{"begins with '='"}},
		{"tls-cert-file:==/v1\n", `tls-cert-file="==/v1"@1`, []string{"begins with '='"}},
		{"tls-cert-file=::/v1\n", `tls-cert-file="::/v1"@1`, []string{"begins with ':'"}},
		{"tls-cert-file = = /v1\n", `tls-cert-file="="@1`, []string{"begins with '='", `"/v1" is ignored`}},
		{"tls-cert-file /v1\n", "", []string{`"tls-cert-file /v1" has neither = nor :`}},
		{"tls-cert-file a b=/v1\n", v1, []string{`"a b" between tls-cert-file and '=' is ignored`}},
		{"a tls-cert-file=/v1\n", "", []string{`unknown key "a"`}},
		{"tls-cert-file=/v1 /v2\n", v1, []string{`it is "/v1", and "/v2" is ignored`}},
		{"tls-cert-file=\"/v1 x\"\n", `tls-cert-file="\"/v1"@1`, []string{"quotes are part", `"x\"" is ignored`}},
		{"tls-cert-file=/v0\ntls-cert-file=/v1\n", `tls-cert-file="/v1"@2`, []string{"replaces the value of line 1"}},
		{"tls-cert-file=/v1\ntls-cert-file=\n", v1, []string{"tls-cert-file has no value"}},
		{"tls-cert-file=\n/v1\n", "", []string{"tls-cert-file has no value", "neither"}},
		{"tls-cert-file\n=/v1\n", `tls-cert-file="/v1"@2`, []string{"neither", `"" is taken for tls-cert-file`}},
		{"junk junk\ntls-cert-file=/v1\n", `tls-cert-file="/v1"@2`, []string{"neither"}},
		{"tls-cert-file=/v1\rtls-cert-file=/v2\n", v1, []string{"is ignored"}},
		{"TLS-cert-file=/v1\n", "", []string{`unknown key "TLS-cert-file"`}},
		{"tls-cert-filex=/v1\n", "", []string{"unknown key"}},
		{"tls-cert-file=/v1\x00x\n", "", []string{"NUL"}},
		{"tls-cert-file=/v1", v1, []string{"the last line has no newline at its end; PCP's programs ignore tls-cert-file"}},
		{"tls-cert-file=/v1 ", v1, nil},
		{"tls-key-file=/v1\ntls-cert-file=/v2", `tls-cert-file="/v2"@2 tls-key-file="/v1"@1`, []string{"no newline"}},
		{strings.Repeat("x", 5000) + "=1\n", "", []string{`unknown key "` + strings.Repeat("x", 100) + `"...`}},
	} {
		t.Run(fmt.Sprintf("%.40q", tt.text), func(t *testing.T) {
			conf, warnings := Parse("f", []byte(tt.text))
			got := describe(conf)
			bad := got != tt.want || len(warnings) != len(tt.warnings)
			for i := 0; i < len(tt.warnings) && !bad; i++ {
				bad = !strings.Contains(warnings[i].Error(), tt.warnings[i]) || !warnings[i].Warning
			}
			if bad {
				t.Errorf("%q:\n got %s %q\nwant %s %q", tt.text, got, warnings.Unwrap(), tt.want, tt.warnings)
			}
		})
	}
}

// TestKeys has all keys, and what libpcp takes for them.
func TestKeys(t *testing.T) {
	for _, tt := range []struct{ short, want string }{
		{"", "tls-cert-file"}, {"t", "tls-cert-file"}, {"tls-c", "tls-cert-file"}, {"tls-cert-file", ""},
		{"tls-k", "tls-key-file"}, {"tls-key-file", ""},
		{"tls-ci", "tls-ciphers"}, {"tls-cipher", "tls-ciphers"}, {"tls-ciphers", ""},
		{"tls-ciphersu", "tls-ciphersuites"}, {"tls-ciphersuites", ""},
		{"tls-ca", "tls-ca-cert-file"}, {"tls-ca-cert-", "tls-ca-cert-file"}, {"tls-ca-cert-file", ""},
		{"tls-ca-cert-d", "tls-ca-cert-dir"}, {"tls-ca-cert-dir", ""},
		{"tls-cl", "tls-client-cert-file"}, {"tls-client-cert-file", ""},
		{"tls-client-k", "tls-client-key-file"}, {"tls-client-key-file", ""},
		{"tls-v", "tls-verify-clients"}, {"tls-verify-clients", ""},
	} {
		want, warns := tt.want, tt.want != ""
		if !warns {
			want = tt.short
		}
		conf, warnings := Parse("f", []byte("\n"+tt.short+": x\n"))
		if got := describe(conf); got != want+`="x"@2` || len(warnings) > 0 != warns {
			t.Errorf("%q: got %s %q, want %s, a warning: %t", tt.short, got, warnings.Unwrap(), want, warns)
		}
	}
}

// The number of warnings, and the place of the last one.
func TestManyWarnings(t *testing.T) {
	_, warnings := Parse("f", []byte(strings.Repeat("x\n", 100000)))
	if n := len(warnings); n != maxWarnings+1 || warnings[n-1].Error() != "f: too many mistakes, the others are not shown" {
		t.Errorf("got %d warnings, the last %q", n, warnings[n-1])
	}
	if got, want := warnings[2].Error(), `f:3: "x" has neither = nor : after it; the line is ignored`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	path := write("tls.conf", "\ntls-key-file = k\n")
	conf, warnings, err := Load(path)
	if err != nil || len(warnings) != 0 || conf.KeyFile.Text != "k" || conf.KeyFile.Pos.String() != path+":2" || conf.Path != path {
		t.Errorf("got %+v, %v, %v", conf, warnings, err)
	}
	if _, _, err := Load(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, _, err := Load(write("long", strings.Repeat("#", maxFile+1))); err == nil {
		t.Error("a file that is too long: no error")
	}
	if _, _, err := Load(dir); err == nil {
		t.Error("a directory: no error")
	}
	if conf, _, err := Load(os.DevNull); err != nil || describe(conf) != "" {
		t.Errorf("the null device: %+v, %v", conf, err)
	}
}
