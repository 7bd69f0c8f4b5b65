// Package debugopt has the names of PCP's debug options, pmdbg(1).
//
// Package debugopt serves the programs of this module, and may change in any release.
package debugopt

import (
	"errors"
	"slices"
	"strings"
)

// names are the debug options of PCP 7.2 (pmdbg(1)). Options without effect
// here are accepted, because scripts give them to any program.
var names = []string{
	"pdu", "fetch", "profile", "value", "context", "indom", "pdubuf", "log", "logmeta",
	"optfetch", "af", "appl0", "appl1", "appl2", "pmns", "libpmda", "timecontrol", "pmc",
	"derive", "lock", "interp", "config", "pmapi", "fault", "auth", "discovery", "attr",
	"http", "desperate", "deprecated", "exec", "labels", "series", "libweb", "alloc",
	"services", "appl3", "appl4", "appl5", "access", "qa", "search", "query", "compress",
	"dev0", "dev1", "dev2", "pmlc", "appl6", "appl7", "appl8", "appl9", "tls",
	"misc", "qed", "getopt", // since 7.2
}

var errUnknown = errors.New("unknown debug option")

// Parse parses a comma-separated list of debug options (-D, and
// pmSetDebug(3)), in upper or lower case, and returns their names sorted.
func Parse(opts string) ([]string, error) {
	var list []string
	for name := range strings.SplitSeq(opts, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		switch {
		case name == "":
		case name == "all":
			list = append(list, names...)
		case slices.Contains(names, name):
			list = append(list, name)
		default:
			return nil, errUnknown
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}
