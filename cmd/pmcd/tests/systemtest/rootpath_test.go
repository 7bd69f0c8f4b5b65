package systemtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/pathtrace"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// A traced is a host whose first process is traced, with all that it starts.
type traced struct {
	*host
	step   int
	dirs   []string // in which user pcp may write, with names of files there
	counts func(execve pathtrace.Call, program string, counts bool) bool
	found  map[string]bool
}

// trace begins to trace. What others do by links is told by what is in /srv/victim, which only root may
// change, and by the owner and the mode of /etc.
func trace(h *host) *traced {
	testutil.NeedProgram(h.t, "strace")
	h.run(`mkdir /root/trace /srv/victim && touch /srv/victim/file
setsid strace ` + pathtrace.Options + ` -p 1 -o /root/trace/init </dev/null >/root/trace/log 2>&1 &
until grep -q 'TracerPid:.[1-9]' /proc/1/status; do sleep 0.1; done`)
	return &traced{host: h, found: make(map[string]bool), dirs: []string{"/var/lib/pcp/tmp", "/run/pcp", "/var/lib/pcp/config/pmda", "/var/log/pcp/pmcd"}}
}

// do runs a script as root, and traces it. Then it judges all that has happened so far, with the files
// as they are now.
func (h *traced) do(script string) {
	h.t.Helper()
	h.step++
	h.Write(h.t, fmt.Sprintf("/root/trace/%d.sh", h.step), "set -e\n"+script+"\n")
	text, code := h.Try(fmt.Sprintf("strace %s -o /root/trace/step%d sh /root/trace/%d.sh", pathtrace.Options, h.step, h.step))
	if code != 0 {
		h.t.Errorf("%s: exit status %d\n%s", script, code, text)
	}
	h.judge(fmt.Sprintf("step%d", h.step))
	h.judge("init")
	const untouched = "file root:root 644\n755 root:root\n755 root:root\n"
	if got := h.run("cd /srv/victim; stat -c '%n %U:%G %a' *; stat -c '%a %U:%G' . /etc; cat file"); got != untouched {
		h.t.Errorf("%s: where links lead:\n%s", script, got)
	}
}

// judge reports what is wrong in a trace, once.
func (h *traced) judge(name string) {
	h.t.Helper()
	calls, err := pathtrace.Read(h.Path("/root/trace/" + name))
	if err != nil || len(calls) == 0 {
		h.t.Fatalf("%s: %d calls, %v", name, len(calls), err)
	}
	j := pathtrace.Judge{Lstat: h.lstat, Counts: h.counts}
	for _, f := range j.Judge(calls) {
		if text := f.String(); !h.found[text] {
			h.found[text] = true
			h.t.Errorf("%s: %s", name, text)
		}
	}
}

// lstat says what is at a path on the host.
func (h *traced) lstat(path string) (f pathtrace.File, err error) {
	name := h.Path(path)
	if path == "/" {
		name += "/." // it is a link, from outside
	}
	fi, err := os.Lstat(name)
	if err != nil {
		return f, err
	}
	st := fi.Sys().(*syscall.Stat_t)
	f = pathtrace.File{UID: st.Uid, GID: st.Gid, Mode: fi.Mode()}
	if fi.Mode()&os.ModeSymlink != 0 {
		f.Link, err = os.Readlink(h.Path(path))
	}
	return f, err
}

// plant has user pcp put links in the place of files and directories, in each directory that the user may
// write to. What is missing there is linked before it is made.
func (h *traced) plant() {
	h.t.Helper()
	names := map[string]string{
		"/var/lib/pcp/tmp":         "mmv pmproxy",
		"/run/pcp":                 "pmcd.pid pmcd.ctl pmcd.new",
		"/var/lib/pcp/config/pmda": "60.0 60.1 60.7 2.1 3.9 3.9.damaged 1.0 144.0.py",
		"/var/log/pcp/pmcd":        "pmcd.log pmcd.log.prev openmetrics.log openmetrics.log.prev",
	}
	script := "cd /\n"
	for _, dir := range h.dirs {
		for name := range strings.FieldsSeq(names[dir]) {
			target := "/srv/victim/file"
			switch name {
			case "mmv":
				target = "/srv/victim"
			case "pmproxy":
				target = "/etc"
			}
			script += fmt.Sprintf("[ ! -d %[1]s ] || [ -L %[2]s ] || { [ ! -e %[2]s ] || mv %[2]s %[2]s.moved; ln -s %[3]s %[2]s; }\n", dir, dir+"/"+name, target)
		}
	}
	h.Write(h.t, "/tmp/plant.sh", script)
	h.run("setpriv --reuid=pcp --regid=pcp --clear-groups sh -e /tmp/plant.sh")
}

// up waits for pmcd.
func (h *traced) up() {
	h.t.Helper()
	h.until("pmcdctl get pmcd.numclients")
}

// withOpenmetrics puts the agent openmetrics on the host, and a script in its configuration.
func (h *traced) withOpenmetrics(path string) {
	h.t.Helper()
	program, err := peer.Plain("pmdaopenmetrics", "./agents/builtin/openmetrics/pmdaopenmetrics")
	if err != nil {
		h.t.Fatal(err)
	}
	if err := copyAll(program, h.Path(path)); err != nil {
		h.t.Fatal(err)
	}
	h.Write(h.t, "/etc/own/config.d/page.url", "file:///etc/own/page\n")
	h.Write(h.t, "/etc/own/page", "x 1\n")
	h.Write(h.t, "/etc/own/config.d/script.sh", "#!/bin/sh\necho y 2\n")
	h.run("chmod 755 /etc/own/config.d/script.sh")
}

// Root follows no link of another user, nor could it, on a host without PCP: the packages are installed,
// upgraded, removed and purged, the service is started, reloaded, restarted, killed and stopped, and an
// agent runs as root.
func TestRootPaths(t *testing.T) {
	h := trace(packaged(t, boot(t, here.without)))
	h.do("dpkg -i" + deb("pmcd", firstVersion))
	h.up()
	h.check("stat -c '%n %a %U:%G' /var/lib/pcp /var/lib/pcp/tmp /var/lib/pcp/tmp/mmv /var/lib/pcp/tmp/pmproxy /var/lib/pcp/config/pmda",
		"/var/lib/pcp 755 root:root\n/var/lib/pcp/tmp 775 pcp:pcp\n/var/lib/pcp/tmp/mmv 775 pcp:pcp\n/var/lib/pcp/tmp/pmproxy 775 pcp:pcp\n/var/lib/pcp/config/pmda 775 pcp:pcp\n")
	for _, step := range []string{
		"systemctl restart pmcd.service; systemctl reload pmcd.service",
		"systemctl kill -s KILL pmcd.service; until [ $(systemctl show --value -p NRestarts pmcd) = 1 ] && systemctl is-active pmcd.service; do sleep 0.1; done",
		"systemctl stop pmcd.service; systemctl start pmcd.service; systemctl stop pmcd.service; systemctl start pmcd.socket; pmcdctl get pmcd.numclients; systemctl stop pmcd.socket pmcd.service",
		"dpkg -i" + deb("pmcd", secondVersion) + deb("pmcd-plugins", secondVersion),
	} {
		h.plant()
		h.do(step)
	}
	h.withOpenmetrics("/usr/libexec/pcp/pmdas/pmdaopenmetrics")
	h.Write(t, "/etc/own/pmcd.conf", "pmcd 2 dso pmcd_init /none\nroot 1 dso root_init /none\nproc 3 dso proc_init /none\nlinux 60 dso linux_init /none\nmmv 70 dso mmv_init /none\n"+
		"openmetrics 144 pipe binary notready /usr/libexec/pcp/pmdas/pmdaopenmetrics -d 144 -u root -c /etc/own/config.d\n")
	h.Write(t, "/etc/own/root", "root {\n pmcd\n openmetrics 144:*:*\n}\npmcd { numclients 2:0:3 }\n")
	h.Write(t, "/etc/default/pmcd", `PMCD_OPTIONS="`+ownOptions+`"`+"\n")
	h.plant()
	h.do("systemctl restart pmcd.service; pmcdctl get pmcd.numclients")
	h.plant()
	h.do("dpkg --remove pmcd-plugins pmcd")
	h.do("dpkg -i" + deb("pmcd", secondVersion))
	h.plant()
	h.do("dpkg --purge pmcd")
}

// The same for the units and the directories of "make install", where the account pcp owns its home directory.
func TestRootPathsHome(t *testing.T) {
	h := trace(boot(t, here.without))
	h.run("useradd --system --user-group --home-dir /var/lib/pcp --create-home --shell /usr/sbin/nologin pcp")
	h.do("cd " + tree + " && make -s install PLUGINS= PMDAS= && systemctl daemon-reload && systemctl start pmcd.service")
	h.up()
	h.check("stat -c '%n %a %U:%G' /var/lib/pcp/tmp/mmv /var/lib/pcp/config/pmda", "/var/lib/pcp/tmp/mmv 775 pcp:pcp\n/var/lib/pcp/config/pmda 775 pcp:pcp\n")
	h.run("systemctl stop pmcd.service; setpriv --reuid=pcp --regid=pcp --clear-groups sh -c 'cd /var/lib/pcp && mv pmcd pmcd.moved; rm -rf config tmp && ln -s /srv/victim config && ln -s /srv/victim tmp && ln -s /srv/victim pmcd'")
	h.do("systemctl start pmcd.service")
	h.until("pmcdctl status")
	h.do("systemctl stop pmcd.service; cd " + tree + " && make -s uninstall PLUGINS= PMDAS=")
}

// The same beside PCP: this pmcd is put in the place of PCP's, on trial and for good, and back. PCP's own
// script, pmcd and agents do not count.
func TestRootPathsSwap(t *testing.T) {
	h := trace(beside(t, here))
	var ours []string // times from which on this pmcd, and PCP's, are started in turns
	h.counts = func(c pathtrace.Call, program string, counts bool) bool {
		switch {
		case program == "/usr/lib/pcp/bin/pmcd":
			i, found := slices.BinarySearch(ours, c.Time)
			return found || i%2 == 1
		case strings.HasPrefix(program, "/usr/lib/pcp/"), strings.HasPrefix(program, "/var/lib/pcp/"), strings.HasPrefix(program, "/etc/init.d/"):
			return false
		}
		return counts
	}
	next := func() { ours = append(ours, strings.TrimSpace(h.run("date +%s.%6N"))) }
	h.withOpenmetrics("/usr/local/libexec/pcp/pmdas/pmdaopenmetrics")
	h.run(`sed -i '/^\[access\]/i openmetrics 144 pipe binary notready /usr/local/libexec/pcp/pmdas/pmdaopenmetrics -d 144 -u root -c /etc/own/config.d' /etc/pcp/pmcd/pmcd.conf`)
	// PCP's agents follow links in the place of saved files.
	h.dirs = slices.DeleteFunc(h.dirs, func(dir string) bool { return strings.HasSuffix(dir, "/pmda") })
	h.plant()
	next()
	h.do("swap-pmcd check || :; swap-pmcd in --trial 10m; swap-pmcd status || :")
	next()
	h.do("swap-pmcd out")
	h.plant()
	next()
	h.do("swap-pmcd in --trial 10m; swap-pmcd keep; systemctl restart pmcd.service; pminfo -f pmcd.numclients")
	h.plant()
	h.do("systemctl kill -s HUP --kill-who=main pmcd.service; pminfo -f pmcd.numclients; swap-pmcd update; systemctl stop pmcd.service")
	h.do("swap-pmcd out; swap-pmcd in; systemctl start pmcd.service; pminfo -f pmcd.numclients; systemctl stop pmcd.service; swap-pmcd out")
	if text := h.run("find /root/trace -name 'init.*' -exec grep -l pmdaopenmetrics {} +"); text == "" {
		t.Error("the agent openmetrics was not started")
	}
}
