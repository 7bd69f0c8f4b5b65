package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/testutil"
)

// Whatever is in the place of a file that a reload reads, the reload ends and says so. When
// the file is back, the next reload finds it.
func TestReloadOddFiles(t *testing.T) {
	r := newHarness(t, func(c *Config) {
		dir := filepath.Dir(c.Files.Conf)
		c.Files.TLS = filepath.Join(dir, "tls.conf")
		testutil.WriteCertificate(t, dir, "a", time.Now().AddDate(1, 0, 0))
		for name, text := range map[string]string{
			"pmcd.conf.access": "allow * : all;\n",
			"pmns":             testNames + "#include \"more\"\n",
			"more":             "\n",
			"tls.conf":         tlsText(dir, "a"),
			"labels.conf":      "[global]\nmachineid_hash = none\n",
			"labels/some":      `{"a":1}`,
		} {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
		}
	}, nil)
	r.awaitStarts()
	r.dial() // the files are loaded before that
	for kind, put := range map[string]func(path string) error{
		"a FIFO":                       func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a directory":                  func(path string) error { return os.Mkdir(path, 0o700) },
		"a device that does not end":   func(path string) error { return os.Symlink("/dev/zero", path) },
		"a sparse file":                func(path string) error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
		"a device that others talk to": func(path string) error { return os.Symlink("/dev/ptmx", path) },
	} {
		for _, tt := range []struct{ file, err string }{
			{"pmcd.conf", "Configuration file"},
			{"pmcd.conf.access", "Configuration file"},
			{"pmns", "pmLoadASCIINameSpace"},
			{"more", "pmLoadASCIINameSpace"},
			{"tls.conf", "TLS settings that were read before"},
			{"a.crt", "TLS settings that were read before"},
			{"a.key", "TLS settings that were read before"},
			{"labels.conf", ""},
			{"labels/some", ""},
			{"labels", ""},
		} {
			t.Run(kind+" in the place of "+tt.file, func(t *testing.T) {
				path := filepath.Join(r.dir, tt.file)
				if err := errors.Join(os.Rename(path, r.dir+"/aside"), put(path)); err != nil {
					t.Fatal(err)
				}
				if tt.file == "more" {
					r.touch("pmns")
				}
				r.reloaded()
				if err := r.Status().Reloads.Err; err == nil && tt.err != "" || err != nil && (tt.err == "" || !strings.Contains(err.Error(), tt.err)) {
					t.Errorf("the reload: %v, want %q", err, tt.err)
				}
				if err := errors.Join(os.RemoveAll(path), os.Rename(r.dir+"/aside", path)); err != nil {
					t.Fatal(err)
				}
				r.reloaded()
				if err := r.Status().Reloads.Err; err != nil {
					t.Errorf("after it is back: %v", err)
				}
			})
		}
	}
}
