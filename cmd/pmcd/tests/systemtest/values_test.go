package systemtest

import (
	"fmt"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// values are what pminfo prints of each metric: an error, or the value of each
// instance; "" is the only one of a metric without instances.
type values map[string]map[string]string

var (
	instanceLine = regexp.MustCompile(`^    inst \[(.*) or "(.*)"\] value (.*)$`)
	metricLine   = regexp.MustCompile(`^[a-z][\w.]*\.\w+$`)
	// What pmcd says of itself is another one's; processes that have ended are
	// others; PCP's agent has an index of its own for the NUMA group; the clock of a CPU is
	// discrete, and changes with its load.
	incomparable = regexp.MustCompile(`^(pmcd|simple|event|acct\.(flag|id|psinfo)|proc\.psinfo\.ngid$|hinv\.cpu\.clock$)`)
	zero         = regexp.MustCompile(`^[0.]+$`)
)

// fetch asks the pmcd of the host for all metrics, as the root of this one.
func (h *host) fetch() values {
	h.t.Helper()
	out, err := exec.Command("pminfo", "-f", "-h", "unix://"+h.Path("/run/pcp/pmcd.socket")).CombinedOutput()
	if err != nil && len(out) < 10000 { // metrics without values are an error, too
		h.t.Fatalf("pminfo: %v\n%s", err, out)
	}
	all := make(values)
	var metric string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimRight(line, "\n")
		if m := instanceLine.FindStringSubmatch(line); m != nil {
			all[metric][m[1]+" "+m[2]] = m[3]
		} else if value, ok := strings.CutPrefix(line, "    value "); ok {
			all[metric][""] = value
		} else if metricLine.MatchString(line) {
			metric = line
			all[metric] = make(map[string]string)
		} else if name, text, ok := strings.Cut(line, ": "); ok && metricLine.MatchString(name) {
			all[name] = map[string]string{"": text}
		}
	}
	return all
}

// constant returns the metrics whose values change only when the host does, and
// counters, which do not become zero again.
func (h *host) constant() (discrete, counters map[string]bool) {
	h.t.Helper()
	out, err := exec.Command("pminfo", "-d", "-h", "unix://"+h.Path("/run/pcp/pmcd.socket")).Output()
	if err != nil {
		h.t.Fatal(err)
	}
	discrete, counters = make(map[string]bool), make(map[string]bool)
	var metric string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if metricLine.MatchString(line) {
			metric = line
		}
		discrete[metric] = discrete[metric] || strings.HasPrefix(line, "Semantics: discrete")
		counters[metric] = counters[metric] || strings.HasPrefix(line, "Semantics: counter")
	}
	return discrete, counters
}

const theUnit = "the unit"

// unhardened gives back all that the unit takes away.
const unhardened = `[Service]
CapabilityBoundingSet=~
NoNewPrivileges=no
RestrictSUIDSGID=no
RestrictNamespaces=no
RestrictRealtime=no
LockPersonality=no
MemoryDenyWriteExecute=no
RestrictAddressFamilies=
SystemCallArchitectures=
SystemCallFilter=
DevicePolicy=auto
DeviceAllow=
ProtectClock=no
PrivateMounts=no
ProtectSystem=no
ReadWritePaths=
ProtectHome=no
ProtectKernelTunables=no
ProtectKernelModules=no
ProtectKernelLogs=no
ProtectControlGroups=no
`

// Neither profile of hardening changes a value, except that proc.delayacct needs a capability
// that the unit does not give. (The host has what gives them the chance: a process of another
// user, and a disk where homes are.)
func TestHardening(t *testing.T) {
	h := without(t)
	hardening := h.run("cat /usr/local/share/pmcd/systemd/pmdas.conf")
	compareProfiles(h, map[string]string{
		theUnit:                        "",
		theUnit + " with a capability": "[Service]\nCapabilityBoundingSet=CAP_NET_ADMIN\n",
		"pmdas.conf":                   hardening,
	})
	for _, tt := range []struct{ profile, most string }{{"", "3.9"}, {hardening, "7.8"}} {
		h.dropIn("profile.conf", tt.profile)
		line := h.run("systemd-analyze security --no-pager pmcd.service | tail -n 1")
		if m := regexp.MustCompile(`: (\d+\.\d) `).FindStringSubmatch(line); m == nil || m[1] > tt.most {
			t.Errorf("%q: more than %s", line, tt.most)
		}
	}
}

// The same with PCP's unit and its agents.
func TestPCPHardening(t *testing.T) {
	h := with(t)
	compareProfiles(h, map[string]string{"pmdas.conf": h.run("cat /usr/local/share/pmcd/systemd/pmdas.conf")})
}

func compareProfiles(h *host, profiles map[string]string) {
	t := h.t
	t.Helper()
	h.run("mount -t ramfs /dev/fake /home && systemd-run --quiet --unit=other -p User=nobody -p 'Environment=SECRET=x' sleep 10000")
	h.dropIn("profile.conf", unhardened)
	h.restart()
	discrete, counters := h.constant()
	before := h.fetch()
	if len(before) < 500 || len(discrete) < 10 || len(counters) < 100 {
		t.Fatalf("only %d metrics, %d discrete, %d counters", len(before), len(discrete), len(counters))
	}
	for m, least := range map[string]int{"filesys.readonly": 1, "tmpfs.capacity": 3, "kernel.all.cpu.user": 1} {
		if len(before[m]) < least {
			t.Errorf("%s: %q", m, before[m])
		}
	}
	for _, m := range []string{"proc.psinfo.environ", "proc.io.rchar"} {
		if len(lasting(before[m])) != 2 {
			t.Errorf("%s: %q", m, before[m])
		}
	}
	differences := func(profile string, after values) (list []string) {
		differ := func(format string, a ...any) { list = append(list, fmt.Sprintf(format, a...)) }
		for _, m := range slices.Sorted(maps.Keys(before)) {
			if incomparable.MatchString(m) || profile == theUnit && strings.HasPrefix(m, "proc.delayacct.") {
				continue
			}
			was, is := before[m], after[m]
			if strings.HasPrefix(m, "proc.") || strings.HasPrefix(m, "hotproc.") || strings.HasPrefix(m, "cgroup.") {
				was, is = lasting(was), lasting(is)
			}
			if !slices.Equal(slices.Sorted(maps.Keys(was)), slices.Sorted(maps.Keys(is))) {
				differ("%s has instances %q, want %q", m, slices.Sorted(maps.Keys(is)), slices.Sorted(maps.Keys(was)))
				continue
			}
			for inst, v := range was {
				switch {
				case (discrete[m] || m == "filesys.readonly") && v != is[inst]:
					differ("%s[%s] is %s, want %s", m, inst, is[inst], v)
				case counters[m] && zero.MatchString(is[inst]) && !zero.MatchString(v),
					(v == `""`) != (is[inst] == `""`),
					strings.HasPrefix(v, "Error:") != strings.HasPrefix(is[inst], "Error:"):
					differ("%s[%s] is %s, was %s", m, inst, is[inst], v)
				}
			}
		}
		return list
	}
	look := func(text string) values {
		h.dropIn("profile.conf", text)
		h.restart()
		return h.fetch()
	}
	for profile, text := range profiles {
		list := differences(profile, look(text))
		if len(list) > 0 { // or disks and caches of the host have come or gone
			before = look(unhardened)
			list = differences(profile, look(text))
		}
		if len(list) > 0 {
			t.Errorf("%s:\n%s", profile, strings.Join(list, "\n"))
		}
		if journal := h.journal("pmcd.service"); strings.Contains(journal, "not permitted") || strings.Contains(journal, "ermission denied") || strings.Contains(journal, "ead-only") {
			t.Errorf("%s: the journal:\n%s", profile, journal)
		}
	}
}

// restart restarts pmcd, and has the agent proc switch on accounting.
func (h *host) restart() {
	h.t.Helper()
	h.run("systemctl restart pmcd.service")
	out, err := exec.Command("pmstore", "-h", "unix://"+h.Path("/run/pcp/pmcd.socket"), "acct.control.enable_acct", "1").CombinedOutput()
	if err != nil {
		h.t.Errorf("pmstore: %v\n%s", err, out)
	}
}

// lasting returns the values of the processes that live as long as the host, and
// of no others.
func lasting(all map[string]string) map[string]string {
	some := make(map[string]string)
	for inst, v := range all {
		if inst == "" || strings.HasPrefix(inst, "1 ") || strings.HasSuffix(inst, "/sleep") {
			some[inst] = v
		}
	}
	return some
}

// dropIn gives the unit one file that adds to it, or none.
func (h *host) dropIn(name, text string) {
	h.t.Helper()
	h.Write(h.t, "/etc/systemd/system/pmcd.service.d/"+name, text)
	h.run("systemctl daemon-reload")
}
