package systemtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/booted"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

func TestMain(m *testing.M) {
	code := m.Run()
	peer.Finish()
	os.Exit(code)
}

// A host is a machine for one test.
type host struct {
	*booted.Machine
	t *testing.T
}

// purgePCP is what an admin does.
const purgePCP = `list=$(dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' 'pcp*' 'libpcp*' 'python3-pcp*' | sed -n 's/^ii //p')
[ -z "$list" ] || dpkg --no-triggers --purge $list`

// removePCP makes a host one that never had PCP.
const removePCP = purgePCP + `
rm -rf /var/lib/pcp /var/log/pcp /run/pcp /etc/pcp* /etc/default/pmcd
! getent passwd pcp || userdel pcp
getent group pcp && groupdel pcp
[ ! -e /etc/pcp.conf ]`

// An image is what machines boot: the files of a root directory with changes to them.
type image func() (root string, layer booted.Layer, err error)

// A system is a release of Debian, as it would be if it never had PCP, and with PCP.
type system struct{ without, with image }

// here is this host's own release, and trixie Debian 13 with PCP 6.3.8.
var (
	here   = systemOf(func() (string, error) { return booted.Host, nil })
	trixie = systemOf(func() (string, error) { return peer.ReleaseRoot("trixie-systemd") })
)

// systemOf returns the system whose root directory is root.
func systemOf(root func() (string, error)) system {
	changed := func(script string) image {
		layer := sync.OnceValues(func() (booted.Layer, error) {
			dir, err := root()
			if err != nil {
				return nil, err
			}
			return layer(dir, script)
		})
		return func() (string, booted.Layer, error) {
			l, err := layer()
			if err != nil {
				return "", nil, err
			}
			dir, err := root()
			return dir, l, err
		}
	}
	// Agents have time to start on a busy machine.
	return system{changed(removePCP), changed("grep -q libpcp " + peer.CPmcd + " && echo '-q 60' >>/etc/pcp/pmcd/pmcd.options")}
}

// eachSystem runs a test on Debian 12, which this host is, and on Debian 13.
func eachSystem(t *testing.T, test func(*testing.T, system)) {
	t.Run("Debian 12", func(t *testing.T) { test(t, here) })
	t.Run("Debian 13", func(t *testing.T) {
		if os.Getenv("PMCD_LONG") == "" {
			t.Skip("takes long: make releasetest")
		}
		test(t, trixie)
	})
}

// layer returns what a script, after which the tree of source is on the host,
// changes in the files of root.
func layer(root, script string) (booted.Layer, error) {
	m, err := booted.Boot(root, nil)
	if err != nil {
		return nil, err
	}
	err = copyTree(m)
	if text, code := m.Try(script); err == nil && code != 0 {
		err = fmt.Errorf("%s: exit status %d\n%s", script, code, text)
	}
	var l booted.Layer
	if err == nil {
		l, err = m.Save()
	}
	return l, errors.Join(err, m.Halt())
}

// tree is where the source is on a host, built but for plugins and programs of
// agents.
const tree = "/usr/src/pmcd"

// copyTree copies what "make install" needs.
func copyTree(m *booted.Machine) error {
	pmcd, err := program()
	if err != nil {
		return err
	}
	root, err := peer.ModuleRoot()
	if err != nil {
		return err
	}
	for _, p := range []string{"Makefile", "docs", "etc", "systemd"} {
		if err := copyAll(filepath.Join(root, p), m.Path(filepath.Join(tree, p))); err != nil {
			return err
		}
	}
	for _, name := range []string{"pmcdctl", "pmcd-prometheus"} {
		program, err := peer.Plain(name, "./cmd/pmcd/"+name)
		if err != nil {
			return err
		}
		if err := copyAll(program, m.Path(tree+"/bin/"+name)); err != nil {
			return err
		}
	}
	return copyAll(pmcd, m.Path(tree+"/bin/pmcd"))
}

// copyAll copies a file, or a directory with all that is in it.
func copyAll(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		name := filepath.Join(to, rel)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(name, b, fi.Mode().Perm())
	})
}

// program builds the daemon as "make build" does. The race detector would change
// what units have to allow.
var program = sync.OnceValues(func() (string, error) {
	if p := os.Getenv("PMCD_UNDER_TEST"); p != "" {
		return filepath.Abs(p)
	}
	return peer.Plain("pmcd", "./cmd/pmcd")
})

// without boots a host that never had PCP, with pmcd installed as the README
// says, but not started.
func without(t *testing.T) *host {
	h := boot(t, here.without)
	h.install("")
	h.Run(t, "systemd-sysusers && systemctl daemon-reload")
	return h
}

// with boots a host that has Debian's PCP, whose pmcd this one has replaced. It
// is not started.
func with(t *testing.T) *host {
	h := boot(t, here.with)
	h.install("")
	return h
}

func boot(t *testing.T, boots image) *host {
	t.Helper()
	if !testutil.Required() && os.Getenv("PMCD_BOOT") == "" {
		testutil.Missing(t, "boots machines: make systemtest")
	}
	root, l, err := boots()
	if errors.Is(err, booted.ErrImpossible) {
		testutil.Missing(t, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := booted.Boot(root, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			journal, _ := m.Try("journalctl --no-pager -q -o short-precise -u pmcd.service -u pmcd.socket | tail -n 60; tail -n 30 /var/log/pcp/pmcd/pmcd.log")
			t.Logf("the journal:\n%s", journal)
		}
		if err := m.Halt(); err != nil {
			t.Error(err)
		}
	})
	return &host{m, t}
}

// install runs "make install" with arguments.
func (h *host) install(args string) {
	h.t.Helper()
	h.Run(h.t, "cd "+tree+" && make -s install PLUGINS= PMDAS= "+args)
}

// run runs a shell script that must not fail, and returns what it printed.
func (h *host) run(script string) string {
	h.t.Helper()
	return h.Run(h.t, script)
}

// check runs a shell script whose output must have each of the texts.
func (h *host) check(script string, want ...string) string {
	h.t.Helper()
	text := h.run(script)
	for _, w := range want {
		if !strings.Contains(text, w) {
			h.t.Errorf("%s: does not print %q:\n%s", script, w, text)
		}
	}
	return text
}

// until runs a script again and again until it succeeds. The machine does so by itself, with pauses, so
// that what is waited for has the CPUs.
func (h *host) until(script string) {
	h.t.Helper()
	if _, code := h.Try("until (\n" + script + "\n) >/dev/null 2>&1; do sleep 0.1; done"); code != 0 {
		text, _ := h.Try(script)
		h.t.Fatalf("%s: does not become true\n%s", script, text)
	}
}

// show returns a property of a unit.
func (h *host) show(unit, property string) string {
	h.t.Helper()
	return strings.TrimSpace(h.run("systemctl show --value -p " + property + " " + unit))
}

// journal returns what the unit has written, and systemd about it.
func (h *host) journal(unit string) string {
	h.t.Helper()
	h.run("journalctl --sync")
	return h.run("journalctl --no-pager -q -o cat -u " + unit)
}
