// Package etc holds the files of this directory that are compiled into pmcd:
// what it serves on a host without PCP.
//
// Package etc serves the programs of this module, and may change in any release.
package etc

import _ "embed"

var (
	// Conf is a configuration, as pmcd.conf (pmcd(1), "CONFIGURATION").
	//
	//go:embed pmcd.conf
	Conf string

	// Names is the name space of its agents, PMNS(5).
	//
	//go:embed root
	Names string

	// Labels is a file of context labels (pmLookupLabels(3)).
	//
	//go:embed labels.json
	Labels []byte
)
