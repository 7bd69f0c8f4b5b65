package peertest

import (
	"regexp"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

func re(s string) *regexp.Regexp { return regexp.MustCompile(`^(?:` + s + `)$`) }

// moving are the metrics whose values two daemons cannot have in common, or
// that move too fast between two looks. All others must be the same, or of the
// same shape where PCP's pmcd itself shows that they change.
var moving = []peer.Rule{
	{Key: re(`pmcd\.(pid|openfds|datasize)`), How: peer.Shape, Why: "each process has its own"},
	{Key: re(`sample\.datasize`), How: peer.Shape, Why: "it grows with the profiles that the agent gets, and ours sends fewer"},
	{Key: re(`pmcd\.build`), How: peer.Presence, Why: "each build names itself"},
	{Key: re(`pmcd\.(buf|cputime|pdu_in|pdu_out)\..*`), How: peer.Shape, Why: "count what the process did so far"},
	{Key: re(`pmcd\.(client\..*|numclients)`), How: peer.Shape, Why: "clients are numbered in the order they come; one that left may not be noticed yet"},
	{Key: re(`sample\.(dupnames\.)?(daemon_pid|pid_daemon)`), How: peer.Shape, Why: "each process has its own"},
	{Key: re(`sample\.((recv_|xmit_)?pdu|percontext\..*)`), How: peer.Shape, Why: "how many requests an agent gets for one of a client is the daemon's affair"},
	{Key: re(`sample\.(mirage(_longlong)?|scramble\..*|(dupnames\.two\.)?lights)`), How: peer.Set, Why: "random, by the clock"},
	{Key: re(`sample\.(magnitude|drift)`), How: peer.Shape, Why: "random"},
	{Key: re(`sample\.proc\..*`), How: peer.Set, Why: "instances come and go, by the clock of each agent"},
	{Key: re(`sample\.sysinfo`), How: peer.Shape, Why: "the seconds since the boot, and the number of processes"},
	{Key: re(`sample\.((dupnames\.two\.)?seconds|milliseconds|step|step_counter|ulonglong\.bin(_ctr)?|byte_ctr|kbyte_ctr)`), How: peer.Shape, Why: "count the time since the agent started"},
	{Key: re(`sample\.event\..*records.*`), How: peer.Presence, Why: "each look takes the next part of a sequence; TestEvents starts it anew"},
	{Key: re(`simple\.(now|time\..*)`), How: peer.Shape, Why: "the clock, and the agent's own CPU time"},
	{Key: re(`(kernel|mem|network|disk|filesys|swap|swapdev|vfs|ipc|tmpfs)\..*`), How: peer.Shape, Why: "the kernel does not stand still between two looks"},
	{Key: re(`cgroup\..*`), How: peer.Set, Why: "groups come and go"},
	{Key: re(`hinv\.(cpu\.clock|nfilesys|ninterface)`), How: peer.Shape, Why: "the host's"},
	{Key: re(`proc\..*|hotproc\..*`), How: peer.Set, Why: "processes come and go; their arguments may have line ends"},
}

// differences are the places where our pmcd differs from PCP's 6.0.3 on purpose.
var differences = []*peer.Difference{
	// Where 6.0.3 and 7.2.1 differ we follow 7.2.1.
	{Key: re(`pcp`), C: "pmcd: Version 6.0.3-BUILD,", Ours: "pmcd: Version 7.2.1-BUILD,", Why: "says whose behaviour we have"},
	{Key: re(`pmcd\.version`), C: "6.0.3", Ours: "7.2.1", Why: "says whose behaviour we have"},
	{Key: re(`pmcd\.control\.debug`), C: "Data Type: 32-bit int ", Ours: "Data Type: string ", Why: "names of options since 7.2"},
	{Key: re(`pmcd\.control\.debug`), C: "    value 0", Ours: `    value ""`, Why: "names of options since 7.2"},
	{Key: re(`pmcd\.control\.debug`), C: "debug 1 0", Ours: `debug 1 ""`, Why: "names of options since 7.2"},
	{Key: re(`pmcd\.control\.timeout`), C: "Units: none", Ours: "Units: sec", Why: "it has units since 7.2"},

	{Key: re(`hinv\.ncpu|sample\.long\.one`), C: `"deep.a":1,"deep.a":"two"`, Ours: `"deep.a":1,"deep.b":"two"`,
		Why: "PCP repeats the first name of a nested label in some sets"},
	{Key: re(`instances and labels`), C: "[context,compound,optional]", Ours: "[context,optional]",
		Why: "PCP marks all labels of a file that come after a nested one as nested, too"},
}

var datePattern = regexp.MustCompile(`(Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w\w\w +\d+ \d+:\d+:\d+( \d{4})?`)

var (
	// The second is one of sample's names for a metric of pmcd's.
	pmcdKey = re(`pmcd\..*|sample\.secret\.foo\.bar\.max\.redirect|InDom: 2\..*`)
	oneline = regexp.MustCompile(`\[[^][]+\]$`)

	// Series are hashes of descriptors too, and the descriptors of these differ.
	newDesc = re(`pmcd\.control\.(debug|timeout)`)
	series  = regexp.MustCompile(`Series: [0-9a-f]{40}$`)

	values = regexp.MustCompile(`^    (inst|value) |^No value|^Error:`)
)

// describedAlike takes the help of the daemon's own metrics out of what pminfo
// prints: it is in our own words.
func describedAlike(r peer.Record) peer.Record {
	if !pmcdKey.MatchString(r.Key) {
		return r
	}
	r = withoutText(r)
	if newDesc.MatchString(r.Key) {
		for i, l := range r.Lines {
			r.Lines[i] = series.ReplaceAllString(l, "Series: HASH")
		}
	}
	return r
}

// withoutText takes help texts out of what pminfo prints, but not that there
// are some.
func withoutText(r peer.Record) peer.Record {
	var lines []string
	inText := false
	for _, l := range r.Lines {
		if inText = inText && !values.MatchString(l); inText {
			continue
		}
		inText = l == "Help:"
		lines = append(lines, oneline.ReplaceAllString(l, "[TEXT]"))
	}
	r.Lines = lines
	return r
}
