package peertest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/pdu"
)

// testsuite has files of /proc and /sys of many hosts, in the package
// pcp-testsuite: archives with trees, and single files.
const testsuite = "/var/lib/pcp/testsuite/linux/"

// singles are the files of the testsuite that are no archives, by prefix, and
// what they are on a host.
var singles = []struct{ prefix, file string }{
	{"cpuinfo-", "proc/cpuinfo"},
	{"interrupts-", "proc/interrupts"},
	{"softirqs-", "proc/softirqs"},
	{"procnet-snmp6-", "proc/net/snmp6"},
	{"procnet-snmp-", "proc/net/snmp"},
	{"proc_net_netstat", "proc/net/netstat"},
	{"proc_net_sockstat6", "proc/net/sockstat6"},
	{"proc_net_sockstat", "proc/net/sockstat"},
	{"proc_serial_tty", "proc/tty/driver/serial"},
}

// testsuiteTree makes a tree of a file of the testsuite, or returns false if it
// has no such thing.
func testsuiteTree(t *testing.T, path string) (root string, ok bool) {
	root = t.TempDir()
	if strings.HasSuffix(path, ".tgz") {
		if out, err := exec.Command("tar", "-C", root, "-xf", path).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for _, dir := range []string{"proc", "sys"} {
			if _, err := os.Stat(filepath.Join(root, dir)); err == nil {
				ok = true
			}
		}
		return root, ok
	}
	name := filepath.Base(path)
	i := slices.IndexFunc(singles, func(s struct{ prefix, file string }) bool { return strings.HasPrefix(name, s.prefix) })
	if i < 0 {
		return "", false
	}
	text, err := os.ReadFile(path)
	if strings.HasSuffix(name, ".bz2") {
		text, err = exec.Command("bzip2", "-dc", path).Output()
	}
	if err != nil {
		t.Fatal(err)
	}
	pmdatest.WriteFile(t, root, singles[i].file, string(text))
	// Their names have the number of CPUs.
	if _, rest, found := strings.Cut(name, "-"); found {
		digits, _, _ := strings.Cut(rest, "cpu")
		if n, err := strconv.Atoi(digits); err == nil {
			stat := "cpu  1 2 3 4\n"
			for i := range n {
				stat += fmt.Sprintf("cpu%d 1 2 3 4\n", i)
			}
			stat += "intr 1 2\nctxt 3\nbtime 4\nprocesses 5\nprocs_running 6\nprocs_blocked 7\n"
			pmdatest.WriteFile(t, root, "proc/stat", stat)
		}
	}
	return root, true
}

// ncpus is one more than the highest number of a CPU in a tree's /proc/stat.
func ncpus(root string) int {
	text, _ := os.ReadFile(filepath.Join(root, "proc/stat"))
	n := 0
	for _, line := range regexp.MustCompile(`(?m)^cpu(\d+) `).FindAllSubmatch(text, -1) {
		i, _ := strconv.Atoi(string(line[1]))
		n = max(n, i)
	}
	return n + 1
}

// absent are metrics of which pmdalinux has 0, or what the host of the test has,
// where a tree lacks the file; ours has no value.
var absent = []struct {
	metrics *regexp.Regexp
	file    string
}{
	{regexp.MustCompile(`^kernel\.all\.(load|runnable|nprocs|lastpid)$`), "proc/loadavg"},
	{regexp.MustCompile(`^kernel\.all\.(uptime|idletime)$`), "proc/uptime"},
	{regexp.MustCompile(`^kernel\.(all|pernode)\.cpu\.`), "proc/stat"},
	{regexp.MustCompile(`^kernel\.all\.(intr|pswitch|sysfork|running|blocked|boottime)$`), "proc/stat"},
	{regexp.MustCompile(`^kernel\.all\.interrupts\.(missed|errors)|kernel\.percpu\.intr$`), "proc/interrupts"},
	{regexp.MustCompile(`^kernel\.percpu\.sirq$`), "proc/softirqs"},
	{regexp.MustCompile(`^kernel\.all\.(entropy|nptys|pid_max)`), "proc/sys/kernel/pid_max"},
	{regexp.MustCompile(`^mem\.ksm\.`), "sys/kernel/mm/ksm/run"},
	{regexp.MustCompile(`^mem\.ksm\.merge_across_nodes$`), "sys/kernel/mm/ksm/merge_across_nodes"},
	{regexp.MustCompile(`^vfs\.`), "proc/sys/fs/file-nr"},
	{regexp.MustCompile(`^vfs\.locks\.`), "proc/locks"},
	{regexp.MustCompile(`^swap\.`), "proc/vmstat"},
	{regexp.MustCompile(`^ipc\.(shm|sem|msg)\.(max_|min_|tot|rss|swp|used_|swap_|sz_|num_|mapent)`), "proc/sys/kernel/sem"},
}

func isAbsent(root, metric string) bool {
	return slices.ContainsFunc(absent, func(a struct {
		metrics *regexp.Regexp
		file    string
	}) bool {
		_, err := os.Stat(filepath.Join(root, a.file))
		return a.metrics.MatchString(metric) && errors.Is(err, fs.ErrNotExist)
	})
}

// notAgreed are metrics that pmdalinux has wrong, see package linux, or of file
// systems: it looks for those of a tree on the host.
var notAgreed = regexp.MustCompile(`^(kernel\.all\.(nusers|nroots|nsessions)|disk\.wwid\.(capacity|discard_bytes)|rpc\.server\.nettcpconn|nfs4\.client\.(calls|reqs)|fchost\.(in\.bytes|out\.frames)|(filesys|tmpfs)\..*|hinv\.nfilesys)$`)

// compareLinux compares what pmdalinux and ours make of a tree, but for what
// matches differ.
func compareLinux(t *testing.T, root string, differ *regexp.Regexp) {
	t.Helper()
	t.Setenv("LINUX_NCPUS", strconv.Itoa(ncpus(root))) // pmdalinux counts those of the host
	t.Setenv("LINUX_MDADM", "/no/such/file")
	c, ours, metrics := linuxAgents(t, root)
	theirReader, ourReader := newReader(c), newReader(ours)
	compared := 0
	for _, m := range metrics {
		if ofHost.MatchString(m.Name) || notTheirs.MatchString(m.Name) || differ.MatchString(m.Name) {
			continue
		}
		theirs, got := theirReader.values(t, m.PMID), ourReader.values(t, m.PMID)
		// Without some files the whole fetch fails.
		if isAbsent(root, m.Name) || theirs[""] == pdu.Errno(-int32(syscall.ENOENT)).Error() {
			clear(theirs)
			delete(got, "")
		}
		// pmdalinux passes on control characters in names of interfaces.
		for inst, v := range maps.Clone(theirs) {
			delete(theirs, inst)
			theirs[pdu.EscapeControls(inst, "")] = v
		}
		// With blanks before them, as on the largest hosts, these lines are
		// taken for kinds of interrupts.
		maps.DeleteFunc(theirs, func(inst, _ string) bool {
			name, _, _ := strings.Cut(inst, "::")
			return name == "ERR" || name == "MIS"
		})
		reportValues(t, m.Name, theirs, got)
		compared += len(got)
	}
	if compared == 0 {
		t.Error("no values")
	}
	t.Logf("%d values", compared)
}

// reportValues reports what two agents do not agree about, in part if it is much.
func reportValues(t *testing.T, metric string, theirs, got map[string]string) {
	t.Helper()
	all := maps.Clone(theirs)
	maps.Copy(all, got)
	bad := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		x, isTheirs := theirs[name]
		y, isOurs := got[name]
		if x == y && isTheirs == isOurs {
			continue
		}
		if bad++; bad <= 3 {
			t.Errorf("%s[%q]: C has %q %v, ours %q %v", metric, name, x, isTheirs, y, isOurs)
		}
	}
	if bad > 3 {
		t.Errorf("%s: %d more", metric, bad-3)
	}
}

// ofProc are the trees of processes and control groups.
var ofProc = regexp.MustCompile(`^(procpid|proc-big-pid|cgroups)-`)

// eachTree runs a test for each tree of the testsuite, or skips.
func eachTree(t *testing.T, isProc bool, test func(t *testing.T, root string)) {
	peer.Require(t)
	files, err := filepath.Glob(testsuite + "*")
	if err != nil || len(files) == 0 {
		testutil.Missing(t, "there is no pcp-testsuite")
	}
	for _, path := range files {
		name := filepath.Base(path)
		if ofProc.MatchString(name) != isProc {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if strings.HasPrefix(name, "interrupts-1152cpu") {
				t.Skip("pmdalinux takes longer than a pmcd waits")
			}
			root, ok := testsuiteTree(t, path)
			if !ok {
				t.Skip("neither proc nor sys")
			}
			test(t, root)
		})
	}
}

// Trees of other hosts and kernels give the same values to both.
func TestLinuxTestsuite(t *testing.T) {
	eachTree(t, false, func(t *testing.T, root string) {
		// What is by node needs CPUs in the directories of nodes. Some trees
		// have none there.
		if _, err := os.Stat(root + "/sys/devices/system/node/node0"); err == nil {
			if links, _ := filepath.Glob(root + "/sys/devices/system/node/node*/cpu[0-9]*"); len(links) == 0 {
				for i := range ncpus(root) {
					pmdatest.WriteFile(t, root, fmt.Sprintf("sys/devices/system/node/node0/cpu%d/", i), "")
				}
			}
		}
		compareLinux(t, root, notAgreed)
	})
}

func TestProcTestsuite(t *testing.T) {
	// Terminals are those of the host; where no process has the file maps, as in
	// these trees, ours has empty texts and not an error; the end of environ,
	// which is a newline in these trees, is taken for a NUL. Some processes are threads.
	differ := regexp.MustCompile(`^proc\.(psinfo\.(ttyname|environ|exit_signal)|memory\.maps)$`)
	eachTree(t, true, func(t *testing.T, root string) { compareProc(t, root, differ) })
}

// wrong2 are metrics that pmdaproc has wrong of control groups of version 2.
var wrong2 = regexp.MustCompile(`^(cgroup\.(cpuset|cpuacct|pressure)\..*|proc\.id\.container)$`)

// compareProc compares what pmdaproc and ours make of a tree, but for what
// matches differ.
func compareProc(t *testing.T, root string, differ *regexp.Regexp) {
	t.Helper()
	t.Setenv("PROC_HERTZ", "100")
	t.Setenv("PROC_PAGESIZE", "4096")
	c, ours, metrics, _ := procAgents(t, root)
	// pmdaproc knows metrics of hot processes when it was asked for a name.
	ask[pdu.PMNSIDs](t, c, &pdu.PMNSNames{Names: []string{"hotproc.smaps.rss"}})
	mounts, _ := os.ReadFile(root + "/proc/mounts")
	isVersion2 := !regexp.MustCompile(`(?m)^\S+ \S+ cgroup `).Match(mounts)
	pid := pdu.NewPMID(3, 8, 0) // pmdaproc looks for processes for some metrics only
	theirReader, ourReader := newReader(c, pid), newReader(ours, pid)
	compared := 0
	for _, m := range metrics {
		// There is one accounting file on a host, and no tree has one.
		if newIn7(m) || wrong[m.Name] != "" || strings.HasPrefix(m.Name, "acct.") || differ.MatchString(m.Name) || isVersion2 && wrong2.MatchString(m.Name) {
			continue
		}
		theirs, got := theirReader.values(t, m.PMID), ourReader.values(t, m.PMID)
		withoutZeros(m.Name, theirs, got)
		reportValues(t, m.Name, theirs, got)
		compared += len(got)
	}
	if compared == 0 {
		t.Error("no values")
	}
	t.Logf("%d values", compared)
}
