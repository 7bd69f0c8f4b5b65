package releasetest

import (
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// clients are commands of PCP 6.3.8. Of what they print the shape is compared,
// of one report a line.
var clients = []string{
	"pcp -h {host} | grep -E 'platform|hardware|timezone|services'",
	"pmprobe -h {host} -v hinv.machine hinv.cpu hinv.map mem.physmem",
	"pmprobe -h {host} -I disk.dev.read kernel.percpu.cpu.user",
	"pmval -h {host} -t 0.1 -s 3 kernel.all.load",
	"pmval -h {host} -t 0.1 -s 3 -i 'cpu0' kernel.percpu.cpu.idle",
	"pmstat -h {host} -t 0.1 -s 2",
	"pmclient -h {host} -t 0.1 -s 2",
	"pmrep -h {host} -t 0.1 -s 2 kernel.all.load disk.all.total mem.util.used",
	"pmrep -h {host} -t 0.1 -s 2 :sar-u-ALL",
	"pmrep -h {host} -t 0.1 -s 2 :vmstat",
	"pcp -h {host} free -t",
	"pcp -h {host} uptime",
	"pcp -h {host} -t 0.1 -s 2 mpstat -P ALL",
	"pcp -h {host} -t 0.1 -s 2 iostat",
	"pcp -h {host} -t 0.1 -s 2 vmstat",
	"pcp -h {host} -t 0.1 -s 2 numastat",
	"pcp -h unix: dstat --cpu --disk --net --page --sys 1 1",
	"pcp -h {host} meminfo | sed -n 1,3p",
	"pcp -h {host} -t 0.1 -s 1 slabinfo | sed -n 1,2p",
	"pcp -h {host} -t 0.1 -s 1 buddyinfo | sed -n 1,2p",
	"pcp -h {host} -t 0.1 -s 1 zoneinfo | sed -n 1,2p",
	"pcp -h {host} netstat -s | sed -n 1,4p",
	"pcp2openmetrics -h {host} -t 0.1 -s 1 hinv.ncpu kernel.all.load | sed 's/{.*}//; /HELP/d'",
	"pmjson --help 2>&1 | sed -n 1,1p",
	"pmstore -h {host} pmcd.client.whoami me | sed 's/.*old//'",
	"pmstore -h unix: pmcd.control.timeout 6; pmval -h {host} -s 1 pmcd.control.timeout | tail -1",
	"pmie -h {host} -t 0.1 -T 5 -v </var/tmp/rule 2>&1 | sed -n '/^ncpu/p' | sort -u",
}

// archive has pmlogger make an archive and looks into it.
const archive = `cd /var/tmp && rm -rf archive && mkdir archive && cd archive &&
printf 'log mandatory on once { hinv.machine hinv.cpu hinv.map pmcd.version }\nlog mandatory on 100 msec { kernel.all.load kernel.percpu.cpu.user disk.dev }\n' >conf &&
pmlogger -h {host} -c conf -l log -s 4 a; echo "exit status $?"
pmlogcheck a; echo "exit status $?"
pminfo -a a | sort
pmdumplog -d a | sed -n '/PMID/,$p' | paste - - - | sort
pmprobe -a a -I | sort
pmdumplog -e a | grep -o '[A-Za-z ]*labels.*' | sort -u`

// rest has pmproxy serve the metrics of pmcd over HTTP. The exit status is that of the client:
// pmproxy 6.3.8 crashes at the end in some runs.
const rest = `pmproxy -f -t -p 44355 -l /var/tmp/pmproxy.log -U root 2>/dev/null >/dev/null & pid=$!
python3 -c '
import json, time, urllib.request
def get(path):
    for i in range(1200):
        try:
            return json.load(urllib.request.urlopen("http://127.0.0.1:44355" + path))
        except OSError:
            time.sleep(0.1)
print(json.dumps(get("/pmapi/metric?prefix=hinv"), sort_keys=True, indent=1))
print(json.dumps(get("/pmapi/indom?name=kernel.percpu.cpu.user"), sort_keys=True, indent=1))
print(json.dumps(get("/pmapi/fetch?names=hinv.ncpu,pmcd.numagents"), sort_keys=True, indent=1))
'; status=$?; kill $pid; wait $pid 2>/dev/null; exit $status`

var (
	numbers = regexp.MustCompile(`[-+]?\b\d[\d.,:]*(?:E[-+]?\d+|[kMGTB]*)\b|[?]|N/A`)
	bars    = regexp.MustCompile(`\s*[|]\s*`)
)

// TestPeerClients has clients of PCP 6.3.8 report about hosts, over TCP and over the
// Unix socket, by its agents and by ours.
func TestPeerClients(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]string{"its agents": "", "built in": builtIn} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, ours := machines(t, before)
			for _, m := range []*peer.Machine{c, ours} {
				run(t, m, `echo 'ncpu = hinv.ncpu;' >/var/tmp/rule`)
			}
			for _, host := range []string{"127.0.0.1", "unix:"} {
				for _, cl := range append([]string{archive, rest}, clients...) {
					if host != "unix:" && !strings.Contains(cl, "{host}") {
						continue // the same again
					}
					first, _, _ := strings.Cut(cl, "\n")
					t.Run(host+" "+strings.ReplaceAll(first, " -h {host}", ""), func(t *testing.T) {
						peer.CompareMachines(t, c, ours, "/", shell(strings.ReplaceAll(cl, "{host}", host)),
							peer.Comparison{Split: alike, Status: peer.AnyStatus})
					})
				}
			}
		})
	}
}

// alike makes reports of different moments alike.
func alike(text string) []peer.Record {
	var r peer.Record
	for l := range strings.Lines(text) {
		l = numbers.ReplaceAllString(bars.ReplaceAllString(l, "|"), "0")
		l = strings.Join(strings.Fields(l), " ")
		r.Lines = append(r.Lines, l)
	}
	return []peer.Record{r}
}

func TestAlike(t *testing.T) {
	text := func(s string) string { return strings.Join(alike(s)[0].Lines, "\n") }
	for _, c := range []struct{ a, b string }{
		{"cpu0  9.967E-01\n", "cpu0 0.0\n"},
		{"cpu0  1.008E+00\n", "cpu0 1\n"},
		{"free 12.5kB at 10:20:30\n", "free 3 at 1\n"},
		{"a | ?\n", "a|-7\n"},
	} {
		if a, b := text(c.a), text(c.b); a != b {
			t.Errorf("%q is %q, and %q is %q", c.a, a, c.b, b)
		}
	}
	if a, b := text("cpu0 1\n"), text("cpu1 1\n"); a == b {
		t.Errorf("two instances are alike: %q", a)
	}
}
