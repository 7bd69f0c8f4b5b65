package openmetrics

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// The pickles are as Python writes them, protocol 0.
func TestPickle(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		want       []string
		prefix     bool
		written    string // what is written again; "" is text
	}{
		{"empty", "(lp0\n.I00\n.", nil, false, ""},
		{"names", "(lp0\nVcontrol\np1\naVa b\np2\na.I01\n.", []string{"control", "a b"}, true, ""},
		{"characters", "(lp0\nV\xe9\np1\naV\\u005cx\np2\naVn\\u000al\np3\naV\\u65e5\np4\naV\\U0001f600\np5\naVq'\"\np6\naV\\u0000\\u000d\\u001a\np7\naV\np8\na.I00\n.",
			[]string{"é", `\x`, "n\nl", "日", "😀", `q'"`, "\x00\r\x1a", ""}, false, ""},
		{"no bool", "(lp0\nVa\np1\na.", []string{"a"}, false, "(lp0\nVa\np1\na.I00\n."},
		{"bytes of Python 2", "(lp1\nS'control'\np2\naS\"it's \\xc3\\xa9 \\\\ \\n\"\np3\na.I01\n.", []string{"control", "it's é \\ \n"}, true,
			"(lp0\nVcontrol\np1\naVit's \xe9 \\u005c \\u000a\np2\na.I01\n."},
		{"without memo", "(lp1\nS'a'\naS'b'\na.I01\n.", []string{"a", "b"}, true, "(lp0\nVa\np1\naVb\np2\na.I01\n."},
		{"memo", "(lp0\nVa\np1\nag1\na.I00\n.", []string{"a", "a"}, false, "(lp0\nVa\np1\naVa\np2\na.I00\n."},
		{"surrogates", "(lp0\nV\\ud83d\\ude00\np1\na.I00\n.", []string{"😀"}, false, "(lp0\nV\\U0001f600\np1\na.I00\n."},
		{"backslash", "(lp0\nVa\\b\np1\na.I00\n.", []string{`a\b`}, false, "(lp0\nVa\\u005cb\np1\na.I00\n."},
	} {
		got, prefix, err := parsePickle([]byte(tt.text), 100)
		if err != nil || !slices.Equal(got, tt.want) || prefix != tt.prefix {
			t.Errorf("%s: %q: %q, %v, %v; want %q, %v", tt.name, tt.text, got, prefix, err, tt.want, tt.prefix)
		}
		want := tt.written
		if want == "" {
			want = tt.text
		}
		if b := appendPickle(nil, got, prefix); string(b) != want {
			t.Errorf("%s: written as %q, want %q", tt.name, b, want)
		}
	}
}

// Whatever else Python would accept is an error, such as a call of a function.
func TestPickleRefuses(t *testing.T) {
	for _, text := range []string{
		"", "(", "(l", "(lp0\n", "(lp0\nVa", "(lp0\nVa\n", "(lp0\nVa\np1\n", "(lp0\nVa\np1\na", "(lpx\n.", "(lp-1\n.", "(lp99999999999\n.",
		"(lp0\nVa\np1\na.I01", "(lp0\n.I02\n.", "(lp0\n.I01\n.x", "(lp0\n.I01\n.(lp0\n.", "(dp0\n.", "\x80\x03]q\x00.", "(lp0\ng1\na.", "(lp0\ng0\na.",
		"cos\nsystem\n(S'true'\ntR.", "(lp0\ncos\nsystem\n(S'true'\ntRa.", "(lp0\nI1\na.", "(lp0\nNa.",
		"(lp0\nV\\u12\np1\na.", "(lp0\nV\\uzzzz\np1\na.", "(lp0\nV\\U00110000\np1\na.", "(lp0\nV\\ud800\np1\na.", "(lp0\nV\\udc00\np1\na.", "(lp0\nV\\ud800x\np1\na.",
		"(lp0\nS'a\np1\na.", "(lp0\nSa\np1\na.", "(lp0\nS'\np1\na.", "(lp0\nS'a'b'\np1\na.", "(lp0\nS'\\xf'\np1\na.", "(lp0\nS'\\xff'\np1\na.", "(lp0\nS'\\q'\np1\na.", "(lp0\nS'a\\'\np1\na.",
		"(lp0\nVa\naVb\naVc\naVd\na.",
	} {
		t.Run(text, func(t *testing.T) {
			if names, _, err := parsePickle([]byte(text), 3); err == nil {
				t.Errorf("%q: no error, but %q", text, names)
			}
		})
	}
}

// A name that is named again and again takes few bytes of a file.
func TestPickleMemo(t *testing.T) {
	text := "(lp0\nV" + strings.Repeat("x", 1<<20) + "\np1\na" + strings.Repeat("g1\na", 200) + "."
	if _, _, err := parsePickle([]byte(text), 1000); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("201 names of 1 MiB: %v", err)
	}
}

func FuzzPickle(f *testing.F) {
	f.Add([]byte("(lp0\nVcontrol\np1\naV\xe9\\u65e5\\U0001f600\np2\nag1\na.I01\n."))
	f.Add([]byte("(lp1\nS'it\\'s'\np2\naS\"\\x41\"\na."))
	f.Fuzz(func(t *testing.T, b []byte) {
		names, prefix, err := parsePickle(b, 1000)
		if err != nil {
			return
		}
		out := appendPickle(nil, names, prefix)
		again, p, err := parsePickle(out, 1000)
		if err != nil || p != prefix || !slices.Equal(again, names) {
			t.Errorf("%q is %q, written as %q, which is %q: %v", b, names, out, again, err)
		}
	})
}

// A table numbers names in the order in which they come, and keeps the numbers of its file.
func TestTable(t *testing.T) {
	dir := t.TempDir()
	tab := newTable(dir, 144, 5, 3)
	tab.recheck(noLock{})
	number := func(name string) string {
		n, isNew, err := tab.number(name, true)
		return fmt.Sprint(n, isNew, err)
	}
	for i, name := range []string{"a", "b", "a"} {
		if got, want := number(name), []string{"0 true <nil>", "1 true <nil>", "0 false <nil>"}[i]; got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	if err := save(noLock{}, []*table{tab}); err != nil {
		t.Fatal(err)
	}
	number("c")
	if got := number("d"); got != "0 false "+errFull.Error() {
		t.Errorf("a fourth name: %s", got)
	}
	tab.forget()
	if got := number("d"); got != "2 true <nil>" {
		t.Errorf("after forget: %s", got)
	}
	tab = newTable(dir, 144, 5, 3)
	tab.recheck(noLock{})
	if got := number("b"); got != "1 false <nil>" {
		t.Errorf("after a restart: %s", got)
	}

	// A damaged file is not replaced, and nothing is numbered anew. Another file is read.
	path := dir + "/144.5.py"
	for _, text := range []string{"", "(lp0\nVa\n", "(lp0\nVa\np1\naVb\np2\naVc\np3\naVd\np4\na."} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		tab = newTable(dir, 144, 5, 3)
		tab.recheck(noLock{})
		tab.recheck(noLock{})
		if _, _, err := tab.number("x", true); err == nil {
			t.Errorf("%q: x has a number", text)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("%q has become %q, %v", text, b, err)
		}
	}
	if err := os.WriteFile(path, []byte("(lp0\nVx\np1\na.I01\n."), 0o644); err != nil {
		t.Fatal(err)
	}
	tab.recheck(noLock{})
	if got := number("y"); got != "1 true <nil>" || !tab.prefix {
		t.Errorf("after another file: %s, %v", got, tab.prefix)
	}
}

// Names that were not saved after all do not count for the limit of a file.
func TestTableForgets(t *testing.T) {
	tab := newTable(t.TempDir(), 144, 5, 1000)
	tab.recheck(noLock{})
	tab.number("saved \u00e9\u65e5", true)
	if err := save(noLock{}, []*table{tab}); err != nil {
		t.Fatal(err)
	}
	for i := range maxSavedFile/maxLine + 10 {
		name := fmt.Sprintf("%d%s", i, strings.Repeat("x", maxLine))
		if _, _, err := tab.number(name, true); err != nil {
			t.Fatalf("name %d: %v", i, err)
		}
		tab.forget()
	}
	if st, err := os.Stat(tab.path); err != nil || st.Size() < int64(tab.bytes) || st.Size() > int64(tab.bytes)+pickleFrame {
		t.Errorf("names of %d bytes are in a file of %v, %v", tab.bytes, st.Size(), err)
	}
}
