package peertest

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// aTool is a program that people look at a host with.
type aTool struct {
	// {pid} is a process that does nothing, besides what stands for the daemon.
	command string
	// lines are those that are compared, which are all without it. Of a table of
	// processes those are the head and the row of {pid}: others come and go.
	lines string
	// code is the exit status.
	code int
}

// remote are tools and what they show of another machine.
var remote = []aTool{
	{"pcp -h {host}", `platform|hardware|timezone`, 0},
	{"pcp -h {host} free -t", "", 0},
	{"pcp -h {host} uptime", "", 0},
	{"pcp -h {host} ipcs -s", "", 0},
	{"pcp -h {host} ipcs -u", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 vmstat", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 mpstat -A", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 mpstat -P ALL", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 iostat", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 iostat -x dm,t,h", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 iostat -x md", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 numastat", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 tapestat", "", 0},
	{"pmstat -h {host} -t 0.1 -s 2", "", 0},
	{"pcp2json -h {host} -t 1 -s 2 -E -x -X kernel.all.load network.interface.mtu hinv.ncpu disk.dev.read", "", 0},
	{"pcp2xml -h {host} -t 1 -s 2 -x -X kernel.all.load network.interface.mtu hinv.ncpu disk.dev.read", "", 0},
	{"pmclient -h {host} -t 0.1 -s 2", "", 0},
	{"pcp -h {host} dstat --cpu --cpu-adv --disk --dm --md --part --disk-tps --disk-util --disk-wait --page --swap 1 1", "", 0},
	{"pcp -h {host} dstat --aio --entropy --freespace --fs --ipc --load --lock --mem --mem-adv --utmp --vm --vm-adv 1 1", "", 0},
	{"pcp -h {host} dstat --io --net --raw --socket --tcp --udp --unix --rpc --rpcd --proc --proc-count --sys 1 1", "", 0},
	{"pcp -h {host} dstat --full --int 1 1", "", 0},
	{"pcp -h {host} dstat --nfs3 --nfs3-ops --nfsd3 --nfsd3-ops --nfsd4-ops 1 1", "", 0},
	// Processes are not shown to others.
	{"pcp -h {host} -t 0.1 -s 2 pidstat", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 ps -e", "", 0},
	{"pcp -h {host} atop 60 1", "", 1},
	{"pcp -h {host} atopsar -A 10 1", "", 1},
}

// local are tools and what they show of processes to users of the host.
var local = []aTool{
	{"pcp -h {host} -t 0.1 -s 2 pidstat -p {pid}", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 pidstat -l -I -p {pid}", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 pidstat -r -p {pid}", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 pidstat -k -p {pid}", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 pidstat -R", `prio`, 0},
	{"pcp -h {host} -t 0.1 -s 2 pidstat -U -p {pid}", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 ps -p {pid}", "", 0},
	{"pcp -h {host} -t 0.1 -s 2 ps -u", `USERNAME|` + psRow, 0},
	{"pcp -h {host} -t 0.1 -s 2 ps -o ALL", `USER|` + psRow, 0},
	{"pcp -h {host} atop -a 60 1", inAtop, 0},
	{"pcp -h {host} atop -a -m 60 1", inAtop, 0},
	{"pcp -h {host} atop -a -d 60 1", inAtop, 0},
	{"pcp -h {host} atop -a -s 60 1", inAtop, 0},
	{"pcp -h {host} atop -a -v 60 1", inAtop, 0},
	{"pcp -h {host} atop -a -c 60 1", inAtop, 0},
	{"pcp -h {host} atop -P CPU,cpu,CPL,GPU,MEM,SWP,PAG,PSI,LVM,MDD,DSK,NFM,NFC,NFS,NET,NUM,LLC 60 1", "", 0},
	{"pcp -h {host} atopsar -A 10 1", "", 0},
	{"pcp -h {host} atop -P PRG,PRC,PRM,PRD,PRN,PRE 60 1", `RESET|SEP|^PR. \S+ \d+ \S+ \S+ \d+ {pid} `, 0},
	{"pcp -h {host} dstat --top-bio --top-cpu --top-io --top-mem --top-childwait 1 1", `most|process`, 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :pidstat", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :pidstat-d", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :pidstat-r", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :pidstat-R", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :pidstat-s", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :pidstat-v", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :pidstat-w", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :proc-info-ext", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :proc-essential", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :proc-cpu-ext", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :proc-mem-ext", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :proc-io-ext", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 -i 0*{pid}[^0-9].* :proc-children", "", 0},
	{"pmrep -h {host} -t 0.1 -s 2 :proc-os-stats", "", 0},
}

// inAtop are the rows of atop about the host, and those about {pid}.
const inAtop = `^[A-Za-z]+ \||PID|^ *{pid} `

// psRow is the row of ps about {pid}: time, user and process ID. A memory size may be the same number.
const psRow = `^[\d:]+\s+\S+\s+{pid}\s`

// reports are those of pmrep's configuration about a host.
const reports = `collectl-dm-sD collectl-sc collectl-sd collectl-sD collectl-sm collectl-sn
	iostat-dktx iostat-dktx-dm iostat-v12_5-dktx iostat-multipath-wwid mpstat mpstat-I-SUM mpstat-P-ALL
	numa-hint-faults numa-per-node-cpu numa-pgmigrate-per-node
	sar sar-B sar-b sar-d-dev sar-d-dm sar-F sar-H sar-I-SUM sar-n-DEV sar-n-EDEV sar-n-NFSv4 sar-n-NFSDv4
	sar-n-SOCK sar-n-TCP-ETCP sar-q sar-r-ALL sar-S sar-u-ALL sar-u-ALL-P-ALL sar-v sar-W sar-w sar-y
	vmstat vmstat-a vmstat-d vmstat-w`

// varies are parts of lines that may differ from one moment to the next, or
// from one agent to the other, where the report is the same.
var varies = []struct {
	re *regexp.Regexp
	to string
}{
	// Accounting is a switch of the host's, and one agent at a time has it.
	{regexp.MustCompile(`#exit +\d+|no +procacct`), "EXITS"},
	// PCP's agent takes a speed that the kernel does not know for 2^32-1, and
	// atop sorts interfaces by how busy they are.
	{regexp.MustCompile(`^NET \|.*\| pcki .*`), "NET | interface"},
	{regexp.MustCompile(`^([\d:]+ +\w+ +)(?:\?|\d+%)((?: +[\d.]+){7})(?: +[hf])?$`), "$1$2"},
	// atopsar leaves out a disk that did nothing.
	{regexp.MustCompile(`^([\d:]{8}) +(?:vd|sd|xvd|nvme)\w+ +\d+%.*`), "$1"},
	// pmrep has this where a number has more digits than its column.
	{regexp.MustCompile(`\bxxx\b`), "0"},
	// Units follow values.
	{regexp.MustCompile(`\b(\d+[dhm])+\d+[hms]\b`), "0"},
	{regexp.MustCompile(`(\d) *(s|ms|µs|ns|B|[KMG]bps|[KMGT]B)([ |]|$)`), "$1$3"},
	{regexp.MustCompile(` *([|:]) *`), "$1"},
	{regexp.MustCompile(`\[[^]]*\]`), "[METER]"},
}

// about returns a split that keeps lines of interest, without what varies.
func about(lines string) func(string) []peer.Record {
	keep := regexp.MustCompile(lines)
	return func(text string) []peer.Record {
		r := peer.Record{Key: "report"}
		for l := range strings.Lines(text) {
			if l = strings.TrimRight(l, " \n"); !keep.MatchString(l) {
				continue
			}
			for _, v := range varies {
				l = v.re.ReplaceAllString(l, v.to)
			}
			r.Lines = append(r.Lines, l)
		}
		return []peer.Record{r}
	}
}

// tools is PCP's pmcd with PCP's agents, and ours as it is on a host without
// PCP. Both have env in their environments.
func tools(t *testing.T, env ...string) *peer.Pair {
	t.Helper()
	peer.Require(t)
	testutil.NeedRoot(t) // for others PCP's agents end at once
	path, err := peer.UnderTest()
	if err != nil {
		t.Fatal(err)
	}
	agents, err := peer.StandardAgents()
	if err != nil {
		t.Fatal(err)
	}
	const dir = "/var/lib/pcp/pmdas"
	agents = append(agents, "xfs 11 pipe binary "+dir+"/xfs/pmdaxfs -d 11", "kvm 95 pipe binary "+dir+"/kvm/pmdakvm -d 95",
		"jbd2 122 dso jbd2_init "+dir+"/jbd2/pmda_jbd2.so")
	return &peer.Pair{
		C:    peer.StartT(t, peer.CPmcd, peer.Config{Agents: agents, Env: env}),
		Ours: peer.StartT(t, path, peer.Config{Agents: agents, Env: env, Embedded: path != peer.CPmcd}),
	}
}

// derived gives clients the metrics that PCP's configuration computes.
var derived = []string{"PCP_DERIVED_CONFIG=/etc/pcp/derived"}

// idle starts a process that does nothing until the test ends.
func idle(t *testing.T) string { return start(t, "sleep", "infinity") }

// busy starts a process that writes to a file, and has children that end. Without one, the rows of
// dstat for the process with most of that are empty on a quiet host, and not where PCP's agents run.
func busy(t *testing.T) string {
	return start(t, "sh", "-c", "while echo x >\"$0\"; do sleep 0.01; done", filepath.Join(t.TempDir(), "file"))
}

// start starts a process, and ends it with the test. It returns its process id.
func start(t *testing.T, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return strconv.Itoa(cmd.Process.Pid)
}

// ended is what pcp-ps says of a process that ended after pcp-ps had its name and
// before it had the rest.
const ended = "TypeError: 'NoneType' object is not subscriptable"

// With nothing but our program on a host, PCP's tools report what they do with
// PCP's pmcd and its agents: the same columns and rows, from another host over
// TCP, and of processes to a user of this host.
func TestTools(t *testing.T) {
	p := tools(t)
	busy(t)
	pid := idle(t)
	check := func(tr peer.Transport, tool aTool) {
		t.Run(fmt.Sprint(tr, " ", strings.ReplaceAll(tool.command, " -h {host}", "")), func(t *testing.T) {
			t.Parallel()
			fill := strings.NewReplacer("{pid}", pid).Replace
			must := ""
			if strings.Contains(tool.lines, "{pid}") {
				must = pid
			}
			cl := words(fill(tool.command))
			cl.Env = derived
			p.Compare(t, tr, cl, peer.Comparison{Split: about(fill(tool.lines)), Must: must, Default: peer.Shape, Status: tool.code, Void: ended})
		})
	}
	for _, tool := range remote {
		check(peer.TCP4, tool)
	}
	for _, name := range strings.Fields(reports) {
		check(peer.TCP4, aTool{"pmrep -h {host} -t 0.1 -s 2 :" + name, "", 0})
	}
	for _, tool := range local {
		check(peer.Unix, tool)
	}
}

// Few hosts have all kinds of storage; a recorded one has.
func TestToolsRecorded(t *testing.T) {
	tree, err := filepath.Abs("../../../../agents/builtin/linux/testdata/storage")
	if err != nil {
		t.Fatal(err)
	}
	p := tools(t, "LINUX_STATSPATH="+tree)
	for command, must := range map[string]string{
		"pcp -h {host} -t 0.1 -s 2 iostat":                                                                 "nvme0n1",
		"pcp -h {host} -t 0.1 -s 2 iostat -x dm":                                                           "vg0-root",
		"pcp -h {host} -t 0.1 -s 2 tapestat":                                                               "st10",
		"pmrep -h {host} -t 0.1 -s 2 :collectl-dm-sD":                                                      "vg0-swap",
		"pmrep -h {host} -t 0.1 -s 2 :iostat-dktx":                                                         "nvme0n1",
		"pmrep -h {host} -t 0.1 -s 2 :sar-d-dm":                                                            "vg0-root",
		"pmrep -h {host} -t 0.1 -s 2 :sar-n-NFSv4":                                                         "0.00",
		"pmrep -h {host} -t 0.1 -s 2 :sar-n-NFSDv4":                                                        "0.00",
		"pmrep -h {host} -t 0.1 -s 2 disk.md.read disk.md.capacity":                                        "md1",
		"pmrep -h {host} -t 0.1 -s 2 :iostat-multipath-wwid":                                               "sda sdb",
		"pcp -h {host} dstat --dm --md --nfs3 --nfs3-ops --nfsd3 --nfsd3-ops --nfsd4-ops --rpc --rpcd 1 1": "0",
	} {
		t.Run(strings.ReplaceAll(command, " -h {host}", ""), func(t *testing.T) {
			t.Parallel()
			cl := words(command)
			cl.Env = derived
			p.Compare(t, peer.TCP4, cl, peer.Comparison{Split: about("."), Must: must, Default: peer.Shape})
		})
	}
}
