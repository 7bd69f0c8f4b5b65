package hostlabels

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

func describeLabels(list []Label) string {
	var s []string
	for _, l := range list {
		v := l.Name + ":" + string(l.Value)
		if l.Optional {
			v += "?"
		}
		s = append(s, v)
	}
	return strings.Join(s, " ")
}

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name, text, want, err string
	}{
		{"by name, the last of two", `{"b": 1, "a": {"x": true}, "b": 2}`, "a.x:true b:2", ""},
		{"none", "{}", "", ""},
		{"not an object", "[]", "", "not a JSON object"},
		{"a bad name", `{"a b": 1, "c": 2}`, "c:2", `bad label name "a b", which is left out`},
		{"too many bytes", `{"a": 1, "b": "` + strings.Repeat("x", maxBytesOfFiles) + `"}`, "a:1", "no room for label b, which is left out"},
	} {
		got, err := Parse([]byte(tt.text))
		if describeLabels(got) != tt.want || fmt.Sprint(err) != cmp.Or(tt.err, "<nil>") {
			t.Errorf("%s: got %s, %v\nwant %s, %s", tt.name, describeLabels(got), err, tt.want, tt.err)
		}
	}
}

func TestLoad(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  string
		warns []string // parts of the warnings
	}{
		{"one file", map[string]string{"labels/a": `{"b": 1, "a": "x y"}`}, `a:"x y" b:1`, nil},
		{"no white space", map[string]string{"labels/a": "\n{ \"a\" : [ 1 ,\t{ \"b\" : null } ] }\n"}, `a:[1,{"b":null}]`, nil},
		{"values stay as they are written", map[string]string{"labels/a": `{"a":1.50e1,"b":"\u00e9\/\"","c":true}`}, `a:1.50e1 b:"\u00e9\/\"" c:true`, nil},
		{"objects get dots", map[string]string{"labels/a": `{"d":{"e":{"f":1},"g":2},"h":{}}`}, "d.e.f:1 d.g:2 h:{}", nil},
		{"an object twice", map[string]string{"labels/a": `{"x":{"a":1},"x":{"b":2}}`}, "x.a:1 x.b:2", nil},
		{"an object and a value", map[string]string{"labels/a": `{"a":{"b":1}}`, "labels/b": `{"a":2}`}, "a:2 a.b:1", nil},
		{"a name twice in a file", map[string]string{"labels/a": `{"x":1,"x":2}`}, "x:2", nil},
		{"later files override", map[string]string{"labels/20": `{"a":2,"b":3}`, "labels/10": `{"a":1,"c":1}`}, "a:2 b:3 c:1", nil},
		{"optional overrides and says so", map[string]string{"labels/z": `{"a":1,"b":1}`, "labels/optional/a": `{"a":2,"c":3}`}, "a:2? b:1 c:3?", nil},
		{"any suffix, but no hidden file", map[string]string{"labels/a.txt": `{"a":1}`, "labels/.b": `{"b":1}`, "labels/optional/.c": `{"c":1}`}, "a:1", nil},
		{"a directory", map[string]string{"labels/a": `{"a":1}`, "labels/b/c": `{"b":1}`}, "a:1", nil},
		{"a bad name loses one label", map[string]string{"labels/a": `{"a":1,"b c":2,"d-e":3,"":4,"é":6,"g":{"h i":7,"j":8}}`}, "a:1 g.j:8",
			[]string{`labels/a: bad label name "b c"`, `bad label name "d-e"`, `bad label name ""`, `bad label name "é"`, `bad label name "g.h i"`}},
		{"a digit, an underscore or a dot may lead", map[string]string{"labels/a": `{"1a":1,"_b":2,"c":{"3":3},"d.e":4,"f.":5,".g":6}`}, ".g:6 1a:1 _b:2 c.3:3 d.e:4 f.:5", nil},
		{"too much of all files", map[string]string{"labels/a": `{"a": "` + strings.Repeat("x", maxBytesOfFiles-100) + `"}`, "labels/b": `{"b": "` + strings.Repeat("x", 100) + `"}`},
			`a:"` + strings.Repeat("x", maxBytesOfFiles-100) + `"`, []string{"labels/b: no room for label b"}},
		{"a file that is not JSON", map[string]string{"labels/a": `{"a":1`, "labels/b": `{"b":2}`, "labels/c": `{"c":3} x`, "labels/d": "", "labels/e": `{"e":01}`, "labels/f": `{"f":1,}`}, "b:2",
			[]string{"a:1:6: unexpected end", "c:1:9: invalid character", "d: not a JSON object", "e:1:7: invalid character", "f:1:8: invalid character"}},
		{"JSON that is no object", map[string]string{"labels/a": `[{"a":1}]`, "labels/b": `1`, "labels/c": ` "x"`}, "", []string{"not a JSON object", "not a JSON object", "not a JSON object"}},
		{"an empty object", map[string]string{"labels/a": `{}`}, "", nil},
		{"too large", map[string]string{"labels/a": `{"a":"` + strings.Repeat("x", maxFile) + `"}`, "labels/b": `{"b":1}`}, "b:1", []string{"file too long"}},
		{"too deep", map[string]string{"labels/a": strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)}, "", []string{"nested more than"}},
		{"far too deep", map[string]string{"labels/a": strings.Repeat(`{"a":`, 10500) + "1" + strings.Repeat("}", 10500)}, "", []string{"exceeded max depth"}},
		{"a long name", map[string]string{"labels/a": `{"` + strings.Repeat("x", 200) + `":{"` + strings.Repeat("y", 100) + `":1,"z":2}}`},
			strings.Repeat("x", 200) + ".z:2", []string{"label name of 301 characters"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var warns []string
			got, err := Load(testutil.WriteFiles(t, tt.files), func(err error) { warns = append(warns, err.Error()) })
			if err != nil || describeLabels(got) != tt.want {
				t.Errorf("got %s, %v, want %s", describeLabels(got), err, tt.want)
			}
			if len(warns) != len(tt.warns) {
				t.Errorf("warnings %q", warns)
				return
			}
			for i, w := range tt.warns {
				if !strings.Contains(warns[i], w) {
					t.Errorf("got warning %q, want %q", warns[i], w)
				}
			}
		})
	}
}

func TestLoadBounds(t *testing.T) {
	many := func(n int, value string) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"l%04d":%s`, i, value))
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	warned := 0
	warn := func(error) { warned++ }
	got, err := Load(testutil.WriteFiles(t, map[string]string{"labels/a": many(1000, "1")}), warn)
	if err != nil || len(got) != maxOfFiles || warned != 1000-maxOfFiles {
		t.Errorf("many labels: %d, %v, %d warnings", len(got), err, warned)
	}
	files := make(map[string]string)
	for i := range 10 {
		files[fmt.Sprintf("labels/%d", i)] = fmt.Sprintf(`{"l%d":"%s"}`, i, strings.Repeat("x", 10000))
	}
	if got, err = Load(testutil.WriteFiles(t, files), nil); err != nil || len(got) != 6 {
		t.Errorf("much text: %d labels, %v", len(got), err)
	}
	warned = 0
	files = make(map[string]string)
	for i := range maxFiles + 5 {
		files[fmt.Sprintf("labels/%05d", i)] = `{"a":` + fmt.Sprint(i) + `}`
	}
	if got, err = Load(testutil.WriteFiles(t, files), warn); err != nil || describeLabels(got) != fmt.Sprint("a:", maxFiles-1) || warned != 1 {
		t.Errorf("many files: %s, %v, %d warnings", describeLabels(got), err, warned)
	}
}

func TestLoadErrors(t *testing.T) {
	if got, err := Load(t.TempDir(), nil); got != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v, %v", got, err)
	}
	dir := testutil.WriteFiles(t, map[string]string{"labels/a": `{"a":1}`})
	// A FIFO would block a reader. A link may lead nowhere.
	if err := syscall.Mkfifo(filepath.Join(dir, "labels", "b"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("gone", filepath.Join(dir, "labels", "c")); err != nil {
		t.Fatal(err)
	}
	warned := 0
	got, err := Load(dir, func(error) { warned++ })
	if err != nil || describeLabels(got) != "a:1" || warned != 2 {
		t.Errorf("got %s, %v, %d warnings", describeLabels(got), err, warned)
	}
}

func TestLoadConf(t *testing.T) {
	for _, tt := range []struct {
		name, text, want string
		warns            int
	}{
		{"nothing", "", "none", 0},
		{"as shipped", "\n[global]\n\n# machineid_hash = none\n#machineid_hash = sha256\n", "none", 0},
		{"before any section", "machineid_hash=sha256\n", "sha256", 0},
		{"in global", "[global]\n  machineid_hash : sha256  \n", "sha256", 0},
		{"it is not taken back", "machineid_hash = sha256\nmachineid_hash = none", "sha256", 0},
		{"a comment behind it", "[global] # c\nmachineid_hash=sha256 # c", "sha256", 0},
		{"a blank for the equals sign", "machineid_hash sha256", "sha256", 0},
		{"another case", "machineid_hash = SHA256\nMachineID_Hash = sha256\n", "none", 2},
		{"another value", "machineid_hash = md5\n", "none", 1},
		{"another key", "hash = sha256\nmachineid_hash = sha256\nx\n", "sha256", 2},
		{"another section", "[other]\nmachineid_hash = sha256\n[global]\nmachineid_hash = sha256\n", "none", 0},
		{"a comment of the other kind", "; machineid_hash = sha256\r\nmachineid_hash = sha256\r\n", "sha256", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			warns := 0
			conf, err := LoadConf(testutil.WriteFiles(t, map[string]string{"labels.conf": tt.text}), func(error) { warns++ })
			if err != nil || conf.MachineIDHash != tt.want || warns != tt.warns {
				t.Errorf("got %q, %v, %d warnings, want %q, %d", conf.MachineIDHash, err, warns, tt.want, tt.warns)
			}
		})
	}
	if conf, err := LoadConf(t.TempDir(), nil); !errors.Is(err, fs.ErrNotExist) || conf.MachineIDHash != "none" {
		t.Errorf("missing: %+v, %v", conf, err)
	}
}
