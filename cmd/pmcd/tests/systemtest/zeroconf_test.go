package systemtest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// zeroconf is what the package pcp-zeroconf does for pmcd when it is installed. PCP's unit then runs
// the three Installs. That of dm does nothing where its libraries are missing.
const zeroconf = `for p in dm nfsclient openmetrics; do touch /var/lib/pcp/pmdas/$p/.NeedInstall; done
systemctl start pmcd.service`

// mounts are of a kernel for which PCP's agent nfsclient has all that ours has.
const mounts = "device nas:/a mounted on /mnt/a with fstype nfs statvers=1.1\n" +
	"\topts:\tro,sync,noatime,nodiratime,vers=3,rsize=32768,wsize=65536,bsize=4096,namlen=255,acregmin=3,acregmax=60,acdirmin=30,acdirmax=60," +
	"soft,posix,nocto,noac,nolock,noacl,nordirplus,nosharecache,noresvport,proto=tcp,port=2049,timeo=11,retrans=5,sec=sys," +
	"mountaddr=192.0.2.1,mountvers=3,mountport=30000,mountproto=udp,local_lock=none\n" +
	"\tage:\t42\n\tcaps:\tcaps=0x3fc7,wtmult=4096,dtsize=4096,bsize=0,namlen=255\n\tsec:\tflavor=1,pseudoflavor=1\n" +
	"\tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 \n\tbytes:\t31 32 33 34 35 36 37 38 \n" +
	"\tRPC iostats version: 1.0  p/v: 100003/3 (nfs)\n\txprt:\ttcp 774 1 2 0 5 46 47 0 49 50 0 52 53\n\tper-op statistics\n" +
	"\t        NULL: 0 0 0 0 0 0 0 0\n\t     GETATTR: 61 62 63 64 65 66 67 68\n\n"

// zeroconfHost returns a host that has pcp-zeroconf, with sources for PCP's openmetrics and a mount for
// nfsclient. This pmcd runs, with PCP's agents.
func zeroconfHost(t *testing.T, s system) *host {
	h := boot(t, s.with)
	for name, file := range map[string]string{"openmetrics": "pmdaopenmetrics", "nfsclient": "pmdas"} {
		program, err := peer.PlainPMDA(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := copyAll(program, h.Path(tree+"/bin/pmdas/"+file)); err != nil {
			t.Fatal(err)
		}
	}
	h.run("cd " + tree + " && ln -s pmdas bin/pmdas/pmdanfsclient && make -s install PLUGINS= PMDAS='openmetrics nfsclient'")
	h.Write(t, "/etc/mountstats", mounts)
	h.Write(t, "/etc/systemd/system/pmcd.service.d/mounts.conf", "[Service]\nEnvironment=NFSCLIENT_MOUNTSTATS_PATH=/etc/mountstats\n")
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"etcd", "cadvisor", "jmx"} {
		text, err := os.ReadFile(filepath.Join(root, "agents/builtin/openmetrics/testdata/pages", page+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		h.Write(t, "/etc/pages/"+page, string(text))
		h.Write(t, "/etc/pcp/openmetrics/"+page+".url", "file:///etc/pages/"+page+"\n")
		h.run("ln -sf /etc/pcp/openmetrics/" + page + ".url /var/lib/pcp/pmdas/openmetrics/config.d/")
	}
	h.Write(t, "/var/lib/pcp/pmdas/openmetrics/config.d/script.sh", "#!/bin/sh\necho 'load{interval=\"1-minute\"} 0.12'\n")
	h.run("chmod 755 /var/lib/pcp/pmdas/openmetrics/config.d/script.sh && systemctl daemon-reload")
	h.run(zeroconf)
	h.until(zeroconfRuns)
	h.run("pgrep -f pmdaopenmetrics.python && pgrep -f pmdanfsclient.python")
	return h
}

// zeroconfRuns succeeds when both agents have values.
const zeroconfRuns = "pminfo -f openmetrics.script.load openmetrics.etcd nfsclient.options.vers dmcache dmstats dmthin >/root/out 2>&1; grep -q 'value 0.12' /root/out && grep -q '/mnt/a' /root/out"

// On a host that pcp-zeroconf has set up, all metrics are there after Python and PCP's two agents that
// need it are gone: openmetrics and nfsclient.
func TestZeroconf(t *testing.T) { eachSystem(t, testZeroconf) }

func testZeroconf(t *testing.T, s system) {
	h := zeroconfHost(t, s)
	if os.Getenv("PMCD_LONG") != "" {
		h.roundTrip()
	}
	before := h.exactly()
	h.run("pmcdctl snapshot >/root/before.json")
	saved := h.run(savedNumbers)

	h.run(`systemctl stop pmcd.service
rm -f /usr/bin/python3* /usr/lib/pcp/pmdas/*/pmdaopenmetrics.python /usr/lib/pcp/pmdas/*/pmdanfsclient.python
! python3 --version
systemctl start pmcd.service`)
	h.until(zeroconfRuns)
	h.check("pmcd=$(readlink -f /usr/lib/pcp/bin/pmcd); $pmcd -v; pgrep -a pmda", "pmdaopenmetrics: ", "is built in: ", "/pmdas/pmdaopenmetrics")
	if now := h.run(savedNumbers); now != saved {
		t.Errorf("saved numbers were\n%s\nand are\n%s", saved, now)
	}
	after := h.exactly()
	for name, was := range before {
		if is := after[name]; is != was && !zeroconfDiffers.MatchString(name) {
			t.Errorf("was\n%s\nis\n%s", was, is)
		}
	}
	if len(before) < 700 || len(after) != len(before) {
		t.Errorf("%d metrics of openmetrics and nfsclient, and %d before", len(after), len(before))
	}
	if text, code := h.Try("pmcdctl compare -x proc -x hotproc -x pmcd -f /root/before.json"); code != 0 {
		t.Errorf("compared with before: exit status %d\n%s", code, text)
	}
}

// roundTrip checks that no number changes when, under PCP's pmcd, PCP's agents in Python and ours follow
// each other. Then this pmcd runs again, with PCP's agents.
func (h *host) roundTrip() {
	saved := h.run(savedNumbers)
	h.run("cp /etc/pcp/pmcd/pmcd.conf /root/pmcd.conf && swap-pmcd out")
	for _, ours := range []bool{true, false, true} {
		h.run("cp /root/pmcd.conf /etc/pcp/pmcd/pmcd.conf")
		if ours {
			h.run(`sed -i 's,[^ \t]*python3* /var/lib/pcp/pmdas/[a-z]*/\(pmda[a-z]*\).python,/usr/local/libexec/pcp/pmdas/\1,' /etc/pcp/pmcd/pmcd.conf`)
		}
		h.run("systemctl restart pmcd.service")
		h.until(zeroconfRuns)
		if _, code := h.Try("pgrep -f pmdas/pmdaopenmetrics && pgrep -f pmdas/pmdanfsclient && ! pgrep -f '[.]python'"); (code == 0) != ours {
			h.t.Errorf("our agents run: %v\n%s", code == 0, h.run("pgrep -a pmda; grep python /etc/pcp/pmcd/pmcd.conf || :"))
		}
		if now := h.run(savedNumbers); now != saved {
			h.t.Errorf("ours %v: saved numbers were\n%s\nand are\n%s", ours, saved, now)
		}
	}
	h.run("cp /root/pmcd.conf /etc/pcp/pmcd/pmcd.conf && swap-pmcd in && systemctl restart pmcd.service")
	h.until(zeroconfRuns)
}

// savedNumbers prints the files with the numbers of openmetrics and nfsclient. Those of nfsclient have times.
const savedNumbers = `cd /var/lib/pcp/config/pmda && stat -c '%n %a' 144.*.py 62.0 && tail -n +1 144.*.py && awk '{ $2 = "TIME"; print }' 62.0`

// zeroconfDiffers are metrics with differences that docs/agents has.
var zeroconfDiffers = regexp.MustCompile(`^(openmetrics\.control\.(calls|fetch_time|parse_time|status)|nfsclient\.(xprt\.max_slots|ops\..*))$`)

// instname is a label that 6.0.3 and our agent have, and 6.3.8 has not.
var instname = regexp.MustCompile(`"instname":"[^"]*",`)

// exactly returns what pminfo prints of each metric of openmetrics and nfsclient: all but texts, which
// pmcdctl compares.
func (h *host) exactly() map[string]string {
	h.t.Helper()
	all := make(map[string]string)
	text, _ := h.Try("pminfo -dfml openmetrics nfsclient 2>&1")
	for block := range strings.SplitSeq(text, "\n\n") {
		block = strings.TrimSpace(block)
		name, _, _ := strings.Cut(block, " ")
		all[name] = instname.ReplaceAllString(block, "")
	}
	return all
}
