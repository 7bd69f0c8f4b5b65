package pmcdconf

import (
	"errors"
	"slices"
	"strings"
)

// debugNames are the debug options of PCP 7.2 (pmdbg(1)). Options without effect
// here are accepted, because scripts give them to any program.
var debugNames = []string{
	"pdu", "fetch", "profile", "value", "context", "indom", "pdubuf", "log", "logmeta",
	"optfetch", "af", "appl0", "appl1", "appl2", "pmns", "libpmda", "timecontrol", "pmc",
	"derive", "lock", "interp", "config", "pmapi", "fault", "auth", "discovery", "attr",
	"http", "desperate", "deprecated", "exec", "labels", "series", "libweb", "alloc",
	"services", "appl3", "appl4", "appl5", "access", "qa", "search", "query", "compress",
	"dev0", "dev1", "dev2", "pmlc", "appl6", "appl7", "appl8", "appl9", "tls",
	"misc", "qed", "getopt", // since 7.2
}

var errDebug = errors.New("unknown debug option")

// ParseDebug parses a comma-separated list of debug options (-D, and
// pmSetDebug(3)), in upper or lower case, and returns their names sorted.
func ParseDebug(opts string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(opts, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case name == "":
		case name == "all":
			names = append(names, debugNames...)
		case slices.Contains(debugNames, name):
			names = append(names, name)
		default:
			return nil, errDebug
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
