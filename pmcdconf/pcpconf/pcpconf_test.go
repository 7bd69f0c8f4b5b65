package pcpconf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

func lookupIn(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	}
}

// The variables that libpcp 6.0.3 adds to the environment.
func TestLoad(t *testing.T) {
	dir := testutil.WriteFiles(t, map[string]string{"etc/pcp.conf": "#PCP_A=1\n PCP_B=2\nPCP_C = 3\nPCP_D=\"a b\"\nPCP_E='x'\nPCP_F=\"x'\nPCP_G=\"x\" \n" +
		"PCP_H=\"\"\nPCP_I=\"\nPCP_J=a=b\n=Z\nPCP_K=1\nPCP_L=x\r\nnoeq\n\nPCP_M=\nPCP_N=a\"b\"\nPCP_O=\"a\"b\"\nPCP_P=1\nPCP_P=2\nPCP_Q=set\nPCP_LAST=1 # c"})
	env := map[string]string{"PCP_DIR": dir, "PCP_K": "env", "PCP_Q": ""}
	got, err := Load(lookupIn(env))
	if err != nil {
		t.Fatal(err)
	}
	want := []Setting{
		{" PCP_B", "2"}, {"PCP_C ", " 3"}, {"PCP_D", "a b"}, {"PCP_E", "x"}, {"PCP_F", "\"x'"}, {"PCP_G", "\"x\" "},
		{"PCP_H", ""}, {"PCP_I", ""}, {"PCP_J", "a=b"}, {"PCP_L", "x\r"}, {"PCP_M", ""}, {"PCP_N", "a\"b\""},
		{"PCP_O", "a\"b"}, {"PCP_P", "1"}, {"PCP_LAST", "1 # c"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestPath(t *testing.T) {
	dir := testutil.WriteFiles(t, map[string]string{"etc/pcp.conf": "PCP_X=dir\n", "other": "PCP_X=other\n"})
	for _, tt := range []struct {
		name string
		env  map[string]string
		want string
	}{
		{"PCP_DIR", map[string]string{"PCP_DIR": dir}, "dir"},
		{"PCP_CONF goes first", map[string]string{"PCP_DIR": dir, "PCP_CONF": filepath.Join(dir, "other")}, "other"},
		{"nothing instead of a missing PCP_CONF", map[string]string{"PCP_DIR": dir, "PCP_CONF": filepath.Join(dir, "missing")}, ""},
		{"nothing instead of an empty PCP_CONF", map[string]string{"PCP_DIR": dir, "PCP_CONF": ""}, ""},
	} {
		got, err := Load(lookupIn(tt.env))
		if tt.want == "" {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: got %q, %v", tt.name, got, err)
			}
			continue
		}
		if err != nil || len(got) != 1 || got[0] != (Setting{"PCP_X", tt.want}) {
			t.Errorf("%s: got %q, %v", tt.name, got, err)
		}
	}
	if got, err := Load(lookupIn(map[string]string{"PCP_CONF": dir})); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory: %q, %v", got, err)
	}
}

// Only a file that the environment names must be there.
func TestCheckNamed(t *testing.T) {
	dir := testutil.WriteFiles(t, map[string]string{"etc/pcp.conf": "PCP_X=dir\n"})
	none := filepath.Join(dir, "none")
	for _, tt := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"PCP_DIR": dir}, ""},
		{map[string]string{"PCP_CONF": dir + "/etc/pcp.conf", "PCP_DIR": none}, ""},
		{map[string]string{"PCP_CONF": none, "PCP_DIR": dir}, "PCP_CONF: open " + none + ": no such file or directory"},
		{map[string]string{"PCP_CONF": dir}, "PCP_CONF: open " + dir + ": not a regular file"},
		{map[string]string{"PCP_DIR": none}, "PCP_DIR: open " + none + "/etc/pcp.conf: no such file or directory"},
	} {
		got := ""
		if err := CheckNamed(lookupIn(tt.env)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%v: got %q, want %q", tt.env, got, tt.want)
		}
	}
}

// The environment counts before pcp.conf, and PCP's default without a pcp.conf.
func TestDir(t *testing.T) {
	dir := testutil.WriteFiles(t, map[string]string{"conf": "PCP_TMP_DIR=/conf\n", "other": "PCP_DIR=/x\n"})
	for _, tt := range []struct{ name, env, conf, want, err string }{
		{"environment", "/env", "conf", "/env", ""},
		{"pcp.conf", "", "conf", "/conf", ""},
		{"no pcp.conf", "", "none", "/var/lib/pcp/tmp", ""},
		{"not in pcp.conf", "", "other", "/var/lib/pcp/tmp", "PCP_TMP_DIR is not set: not in pcp.conf"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("PCP_TMP_DIR", tt.env)
			if tt.env == "" {
				os.Unsetenv("PCP_TMP_DIR") // Load leaves out a variable that is set, even to ""
			}
			t.Setenv("PCP_CONF", filepath.Join(dir, tt.conf))
			got, err := Dir("PCP_TMP_DIR")
			if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
				t.Errorf("got %q, %v; want %q, %s", got, err, tt.want, tt.err)
			}
		})
	}
}

// A variable of the environment is kept, and a missing pcp.conf is not an error.
func TestSetEnv(t *testing.T) {
	t.Setenv("PCP_DIR", testutil.WriteFiles(t, map[string]string{"etc/pcp.conf": "PCP_SET_ENV_A=a\nPCP_SET_ENV_B=b\n"}))
	t.Setenv("PCP_SET_ENV_A", "mine")
	t.Setenv("PCP_SET_ENV_B", "") // restored afterwards
	os.Unsetenv("PCP_SET_ENV_B")
	if err := SetEnv(); err != nil {
		t.Fatal(err)
	}
	if a, b := os.Getenv("PCP_SET_ENV_A"), os.Getenv("PCP_SET_ENV_B"); a != "mine" || b != "b" {
		t.Errorf("got %q, %q; want mine, b", a, b)
	}
	t.Setenv("PCP_DIR", t.TempDir())
	if err := SetEnv(); err != nil {
		t.Errorf("no file: %v", err)
	}
}
