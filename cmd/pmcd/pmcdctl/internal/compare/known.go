package compare

import (
	"regexp"
	"strings"
)

// ownNumbers are metrics whose values are those of the daemon itself: two of them have others. Those
// of pmlogger and pmie name files that change each night.
var ownNumbers = regexp.MustCompile(`^pmcd\.(pmlogger\.archive$|pmie\.(logfile|configfile)$|pid|seqnum|buf\.|cputime|client\.|openfds|numclients|datasize)`)

// momentary are metrics that have another value at each moment: the agent that reads them is one of
// the processes that run, and makes its CPU faster.
var momentary = regexp.MustCompile(`^((hot)?proc\.psinfo\.(signal|signal_s|sname|wchan|wchan_s|processor|eip|esp)|proc\.runq\..*|kernel\.all\.(running|runnable|blocked)|hinv\.cpu\.clock)$`)

// ofAgents are the metrics and instances that follow from which agents a pmcd has.
var ofAgents = regexp.MustCompile(`^(pmcd\.(numagents|agent\..*)|instance domain 2\.3)$`)

// A knownDifference is a deliberate one: of names, or what else differs, and of kinds.
type knownDifference struct {
	names string // a regular expression for the whole name
	what  string // kinds, with blanks between two
	page  string // in docs
	row   string // what that page says of it
}

// As C pmcd with the agents of PCP 6.0.3 and 6.3.8 was compared with this one.
var knownDifferences = []knownDifference{
	{`pmcd\.version`, isValue, "compatibility.md", "`pmcd.version` is 7.2.1"},
	{`pmcd\.build`, isValue, "compatibility.md", "`pmcd.build` is the version of this program"},
	{`pmcd\.feature\.service_discovery`, isValue, "compatibility.md", "`pmcd.feature.service_discovery` is 0"},
	{`pmcd\.agent\.type`, isValue, "compatibility.md", "it is the built-in agent"},
	{`pmcd\.control\.(debug|timeout)`, isType + " " + isUnits, "compatibility.md", "pmcd does what 7.2.1 does"},
	{`(pmcd|kernel|mem|swap|swapdev|vfs|ipc|tty|pmda|sysfs|hyperv|disk|zram|filesys|tmpfs|tape|fchost|network|nfs|nfs3|nfs4|rpc|hinv|` +
		`proc|hotproc|cgroup|acct|xfs|quota|kvm|jbd2|cifs|nfsclient|pmimport|mmv|pmproxy|trace|sample|simple|trivial|txmon|containers)(\..*)?`, isText,
		"compatibility.md", "Help texts of built-in agents"},
	{`instance domain (2|3|4|11|29|43|60|62|70|95|121|122|253|254)\..*`, isText, "compatibility.md", "Help texts of built-in agents"},
	{`(mmv|pmproxy)\.control\.debug`, isType, "agents/mmv.md", "`mmv.control.debug` as a string"},
	{`(mmv|pmproxy)\.control\.metrics`, isName, "agents/mmv.md", "`mmv.control.metrics`"},
	{`disk\.(dm|md)\..*`, isType, "agents/linux.md", "byte counters of `disk.dm` and `disk.md` have 64 bits"},
	{`disk\.md\.status`, isValue, "agents/linux.md", "disk.md.status"},
	{`mem\.vmstat\.nr_free_cma|kvm\.largepages`, isSemantics, "compatibility.md", "pmcd does what 7.2.1 does"},
	{`domain 11`, isLabels, "compatibility.md", "pmcd does what 7.2.1 does"},
	{`(hot)?proc\.smaps\.pss_dirty`, isName, "compatibility.md", "linux and proc have the metrics of PCP 7.2.1"},
	{`mem\.numa\.util\.(mapped|pageTables)`, isValue, "agents/linux.md", "mem.numa.util: Mapped, PageTables"},
	{`ipc\.shm\.max_.*|vfs\.files\.max`, isValue, "agents/linux.md", "numbers that the type of the metric cannot hold"},
	{`mem\.zoneinfo\.nr_free_pages`, isValue, "agents/linux.md", "mem.zoneinfo.nr_free_pages"},
	{`network\.interface\.(speed|baudrate|type|virtual|duplex|wireless)`, isValue, "agents/linux.md", "network.interface: attributes"},
	{`(mem\.(slabinfo|vmmemctl)|tty|hyperv\.balloon|nfs\.server\.threads|nfs4\.server\.(clients|open))\..*|instance domain 60\.(12|35)`, isError + " " + isValue,
		"agents/linux.md", "Only root may read the files of these metrics"},
	{`instance domain 60\.(5|18)`, isNumber, "agents/linux.md", "ids of file systems"},
	{`instance domain 60\.18`, isInstances, "agents/linux.md", "tmpfs"},
	{`instance domain 60\.42`, isInstances, "agents/linux.md", "disk.wwid: disks whose names are the same"},
	{`instance domain 60\.17`, isNumber, "agents/linux.md", "ids of interface addresses"},
	{`kvm\..*`, isValue, "agents/kvm.md", "counters that the kernel does not have"},
	{`cifs\.fs\.smbs`, isValue, "agents/cifs.md", "fs.smbs"},
	{`cifs\.fs\.(connected|read_bytes|write_bytes)`, isError, "agents/cifs.md", "fs.connected, fs.read_bytes, fs.write_bytes"},
	{`cifs\.fs\.(negotiates|sessionsetups|logoffs|cancels|echos)(_fails)?`, isValue + " " + isError, "agents/cifs.md", "values that the kernel does not write"},
	{`cifs\.debug\.sessions\.cred_user`, isValue, "agents/cifs.md", "debug.sessions.cred_user"},
	{`nfsclient\.ops\..*`, isValue + " " + isError, "agents/nfsclient.md", "operations that the mount does not have"},
	{`cluster 144\..*`, isLabels, "agents/openmetrics.md", "the label `hostname` of `localhost` with a port"},
	{`instance 144\..*`, isLabels, "agents/openmetrics.md", "the optional label `instname`"},
	{`openmetrics\.control\..*`, isText, "agents/openmetrics.md", "texts of openmetrics.control"},
	{`nfsclient\.options\.(atime|diratime|cto|ac|lock|acl|rdirplus|sharecache|resvport)`, isValue, "agents/nfsclient.md", "options.atime, diratime, cto"},
	{`nfsclient\.xprt\.max_slots`, isValue, "agents/nfsclient.md", "xprt.max_slots"},
	{`nfsclient\.xprt\..*`, isValue, "agents/nfsclient.md", "xprt of a transport between processes of the host"},
	{`nfsclient\.options\.recovery`, isValue, "agents/nfsclient.md", "options.recovery of softerr"},
	{`nfsclient\.options\.proto`, isValue, "agents/nfsclient.md", "options.proto of tcp6"},
	{`nfsclient\.options\.fsc`, isValue, "agents/nfsclient.md", "options.fsc of a mount with fsc=TAG"},
	{`hotproc\.(total|predicate)\..*`, isValue, "agents/proc.md", "hotproc.total before the second scan"},
	{`(hot)?proc\.psinfo\.(priority|rt_priority|policy|policy_s|delayacct_blkio_time|guest_time|cguest_time)`, isValue, "agents/proc.md", "psinfo.priority, rt_priority, policy"},
	{`(hot)?proc\.psinfo\.psargs`, isValue, "agents/proc.md", "psinfo.psargs"},
	{`(hot)?proc\.(psinfo\.(start_code|end_code|start_stack|esp|eip|vsize|rss)|memory\..*)|hotproc\.predicate\.virtualsize`, isValue,
		"agents/proc.md", "numbers that the type u32 cannot hold"},
	{`(hot)?proc\.psinfo\.ngid`, isValue, "agents/proc.md", "psinfo.ngid"},
	{`(hot)?proc\.id\.gid(_nm)?`, isValue, "agents/proc.md", "id.gid"},
	{`(hot)?proc\.io\..*`, isValue, "agents/proc.md", "a process that may be opened but not read"},
	{`cgroup\.cpuacct\..*|cgroup\.cpuset\..*`, isValue, "agents/proc.md", "cgroup.cpuset, cgroup.cpuacct of version 2"},
	{`cgroup\.netclass\..*`, isValue, "agents/proc.md", "cgroup.netclass"},
	{`cgroup\..*|instance domain 3\.(1[6-9]|2[0-9]|3[0-9])`, isValue + " " + isInstances, "agents/proc.md", "cgroup.* where hierarchies of both versions are mounted"},
}

var knownNames = func() (all []*regexp.Regexp) {
	for _, k := range knownDifferences {
		all = append(all, regexp.MustCompile(`^(?:`+k.names+`)$`))
	}
	return all
}()

// known returns where the documentation has a difference, or "".
func known(d *Difference) string {
	if d.What == isText && d.B == "" { // other words are deliberate, none are not
		return ""
	}
	for i, k := range knownDifferences {
		if strings.Contains(" "+k.what+" ", " "+d.What+" ") && knownNames[i].MatchString(d.Name) {
			return "docs/" + k.page + ": " + k.row
		}
	}
	return ""
}
