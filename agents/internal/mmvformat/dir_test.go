package mmvformat

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDir(t *testing.T) {
	conf := filepath.Join(t.TempDir(), "pcp.conf")
	if err := os.WriteFile(conf, []byte("PCP_TMP_DIR=/conf\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "pcp.conf")
	if err := os.WriteFile(other, []byte("PCP_DIR=/x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ name, env, conf, want string }{
		{"environment", "/env", conf, "/env/mmv"},
		{"pcp.conf", "", conf, "/conf/mmv"},
		{"no pcp.conf", "", "/no/such/pcp.conf", "/var/lib/pcp/tmp/mmv"},
		{"not in pcp.conf", "", other, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Setenv("PCP_TMP_DIR", test.env)
			if test.env == "" {
				os.Unsetenv("PCP_TMP_DIR") // pcpconf leaves out a variable that is set, even to ""
			}
			t.Setenv("PCP_CONF", test.conf)
			got, err := Dir(DirMMV)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("got %q, %v; want %q", got, err, test.want)
			}
		})
	}
}
