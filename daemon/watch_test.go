package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// must fails the test for an error of the file system.
func (r *harness) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// With --watch a change of a file of the configuration, made in any of the
// ways in which that is done, is a reload, and nothing else is.
func TestWatch(t *testing.T) {
	const (
		two   = "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\n"
		three = two + "u 241 pipe binary u\n"
		rules = "[access]\nallow * : all;\n"
	)
	type step struct {
		name string
		do   func(r *harness, path func(string) string)
		log  string // in the line that says what has changed
	}
	write := func(name, text string) step {
		return step{"write " + name, func(r *harness, path func(string) string) {
			r.must(os.WriteFile(path(name), []byte(text), 0o666))
		}, "/" + name}
	}
	tests := []struct {
		name  string
		setup func(r *harness, c *Config, path func(string) string)
		steps []step
	}{
		{"truncate and write", nil, []step{
			{"", func(r *harness, path func(string) string) {
				f, err := os.OpenFile(path("pmcd.conf"), os.O_WRONLY|os.O_TRUNC, 0)
				r.must(err)
				_, err = f.WriteString(two)
				r.must(err)
				r.must(f.Close())
			}, "/pmcd.conf"},
			write("pmcd.conf", three),
		}},
		{"tls.conf", func(_ *harness, c *Config, path func(string) string) { c.Files.TLS = path("tls.conf") }, []step{
			write("tls.conf", "# nothing\n"),
			{"gone", func(r *harness, path func(string) string) { r.must(os.Remove(path("tls.conf"))) }, "/tls.conf"},
		}},
		{"rename", nil, []step{
			{"another file gets the name", func(r *harness, path func(string) string) {
				r.must(os.WriteFile(path(".pmcd.conf.swp"), []byte(two), 0o666))
				r.must(os.Rename(path(".pmcd.conf.swp"), path("pmcd.conf")))
			}, "/pmcd.conf"},
			{"the old one becomes a copy", func(r *harness, path func(string) string) {
				r.must(os.Rename(path("pmcd.conf"), path("pmcd.conf~")))
				r.must(os.WriteFile(path("pmcd.conf"), []byte(three), 0o666))
			}, "/pmcd.conf"},
			{"gone", func(r *harness, path func(string) string) { r.must(os.Remove(path("pmcd.conf"))) }, "/pmcd.conf"},
			write("pmcd.conf", two),
		}},
		{"links of Kubernetes", func(r *harness, c *Config, path func(string) string) {
			r.must(os.Mkdir(path("..1"), 0o777))
			r.must(os.WriteFile(path("..1/pmcd.conf"), []byte(two), 0o666))
			r.must(os.Symlink("..1", path("..data")))
			r.must(os.Remove(path("pmcd.conf")))
			r.must(os.Symlink("..data/pmcd.conf", path("pmcd.conf")))
		}, []step{
			{"", func(r *harness, path func(string) string) {
				r.must(os.Mkdir(path("..2"), 0o777))
				r.must(os.WriteFile(path("..2/pmcd.conf"), []byte(three), 0o666))
				r.must(os.Symlink("..2", path("..data_tmp")))
				r.must(os.Rename(path("..data_tmp"), path("..data")))
				r.must(os.RemoveAll(path("..1")))
			}, "/pmcd.conf"},
			{"again", func(r *harness, path func(string) string) {
				r.must(os.WriteFile(path("..2/pmcd.conf"), []byte(two), 0o666))
			}, "/pmcd.conf"},
		}},
		{"a link to the directory", func(r *harness, c *Config, path func(string) string) {
			for i, text := range []string{two, three} {
				dir := path([]string{"v1", "v2"}[i])
				r.must(os.Mkdir(dir, 0o777))
				r.must(os.WriteFile(filepath.Join(dir, "pmcd.conf"), []byte(text), 0o666))
			}
			r.must(os.Symlink(path("v1"), path("current")))
			c.Files.Conf = path("current/pmcd.conf")
		}, []step{
			{"", func(r *harness, path func(string) string) {
				r.must(os.Symlink("v2", path("next")))
				r.must(os.Rename(path("next"), path("current")))
			}, "/current/pmcd.conf"},
			{"what is there now", func(r *harness, path func(string) string) {
				r.must(os.WriteFile(path("v2/pmcd.conf"), []byte(two), 0o666))
			}, "/current/pmcd.conf"},
		}},
		{"other files", nil, []step{
			write("pmcd.conf.access", "allow * : all;\n"),
			write("pmns", strings.Replace(testNames, "two 240:0:2", "nine 240:0:2", 1)),
			write("labels/a", `{"a":1}`),
			write("labels.conf", "machineid_hash=sha256\n"),
			{"a directory that was not there", func(r *harness, path func(string) string) {
				r.must(os.Mkdir(path("labels/optional"), 0o777))
				r.must(os.WriteFile(path("labels/optional/b"), []byte(`{"b":1}`), 0o666))
			}, "/labels/optional/b"},
			write("labels/optional/b", `{"b":2}`),
			{"a directory goes", func(r *harness, path func(string) string) { r.must(os.RemoveAll(path("labels"))) }, "/labels/a, "},
			{"and comes again", func(r *harness, path func(string) string) {
				r.must(os.Mkdir(path("labels"), 0o777))
				r.must(os.WriteFile(path("labels/c"), []byte(`{"c":1}`), 0o666))
			}, "/labels/c"},
		}},
		{"files that do not matter", nil, []step{
			{"", func(r *harness, path func(string) string) {
				r.must(os.WriteFile(path("pmcd.log"), []byte("x"), 0o666))
				r.must(os.WriteFile(path("labels/.hidden"), []byte("x"), 0o666))
				r.must(os.Chmod(path("pmcd.conf"), 0o600))
				f, err := os.Open(path("pmcd.conf"))
				r.must(err)
				f.Close()
			}, ""},
			write("pmcd.conf", two+rules),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := ""
			path := func(name string) string { return filepath.Join(dir, name) }
			setup := &harness{t: t}
			r := newHarness(t, func(c *Config) {
				c.Files.Watch = true
				dir = c.Files.Labels
				setup.must(os.MkdirAll(path("labels"), 0o777))
				if tt.setup != nil {
					tt.setup(setup, c, path)
				}
			}, nil)
			r.awaitStarts()
			reloads := func() int { return len(r.logs.With("pmcd RESTARTED")) }
			for i, s := range tt.steps {
				before := reloads()
				s.do(r, path)
				if s.log == "" {
					continue // the next step shows that there was no reload
				}
				testutil.Eventually(t, s.name+": a reload", func() bool { return reloads() > before })
				changes := r.logs.With("changed: ")
				if got := changes[len(changes)-1].Message; !strings.Contains(got, s.log) {
					t.Errorf("step %d, %s: the log has %q, want %q in it", i, s.name, got, s.log)
				}
				if tt.name == "files that do not matter" && len(changes) != 1 {
					t.Errorf("step %d: %d reloads for one change", i, len(changes))
				}
			}
			if n := r.Status().Reloads.Count; n != 0 {
				t.Errorf("pmcd.sighups is %d, and there was no signal", n)
			}
		})
	}
}

// What --watch finds is in force, as after a signal.
func TestWatchReloads(t *testing.T) {
	r := newHarness(t, func(c *Config) { c.Files.Watch = true }, nil)
	r.awaitStarts()
	c := r.dialValues()
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\n")
	testutil.Eventually(t, "an agent has gone", func() bool {
		return c.values(id(241, 1)) == "241.0.1=PM_ERR_NOAGENT"
	})
	if got := c.values(id(240, 1)); got != "240.0.1=240" {
		t.Errorf("one that is kept: %s", got)
	}
}
