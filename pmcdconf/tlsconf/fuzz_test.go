package tlsconf

import (
	"strings"
	"testing"
)

// FuzzParse checks that nothing panics, that values are single words at a line that has
// them, that what is written from a Conf gives the same Conf without a warning, and that
// a line that does not count gives a warning.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"", "tls-cert-file=/v1\n", "tls-key-file : k # c\r\n", "a b = c", "==", "t=\x00\n", "tls-ca-cert-dir=\"x y\"\n#\n\n",
		"tls-ciphers=A:B\ntls-ciphers=\n", "tls-client-cert-file=a\rtls-v=b\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		conf, warnings := Parse("f", text)
		lines := strings.SplitAfter(string(text), "\n")
		var again strings.Builder
		n := 0
		for _, f := range conf.fields() {
			v := f.value
			if *v == (Value{}) {
				continue
			}
			n++
			if v.Key != f.key || v.Text == "" || strings.ContainsAny(v.Text, space+"#\x00") || v.Pos.File != "f" ||
				v.Pos.Line < 1 || v.Pos.Line > len(lines) || !strings.Contains(lines[v.Pos.Line-1], v.Text) {
				t.Fatalf("%q: %+v", text, v)
			}
			again.WriteString(v.Key + " = " + v.Text + "\n")
		}
		for _, w := range warnings {
			if !w.Warning || w.Pos.File != "f" || w.Pos.Line > len(lines) || strings.ContainsAny(w.Error(), "\n\r\x00") {
				t.Fatalf("%q: %q", text, w)
			}
		}
		used := 0
		for _, l := range lines {
			if l = strings.TrimLeft(l, space); l != "" && l[0] != '#' {
				used++
			}
		}
		if used > n && len(warnings) == 0 {
			t.Fatalf("%q: %d of %d lines count, and no warning", text, n, used)
		}
		conf2, warnings2 := Parse("f", []byte(again.String()))
		for i, f := range conf2.fields() {
			if want := conf.fields()[i].value; f.value.Text != want.Text {
				t.Fatalf("%q: %s is %q, then %q", text, f.key, want.Text, f.value.Text)
			}
		}
		for _, w := range warnings2 {
			if s := w.Error(); !strings.Contains(s, "begins with") && !strings.Contains(s, "quotes are part") {
				t.Fatalf("%q: %q", again.String(), w)
			}
		}
	})
}
