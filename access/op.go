// Package access decides which clients may connect to pmcd and which operations
// they may use. It implements the [access] section of pmcd.conf (pmcd(1), "ACCESS
// CONTROL CONFIGURATION").
//
// The package reads no files and has no syntax: package pmcdconf turns text into
// Rules. It resolves no names either: a Rule holds addresses and ids. Only the
// groups of a client's user are looked up later, through a Resolver.
//
// Rules and connection counts are separate. A List of rules is immutable, and a
// reload of the configuration replaces it as a whole. A Counter holds the live
// connections across reloads and counts them again under the new List.
//
// Package access serves the programs of this module, and may change in any release.
package access

import "strings"

// An Op is a set of operations, one bit each (PMCD_OP_* of pmcd).
type Op uint32

const (
	Fetch Op = 1 << iota // read metrics: descriptors, names, help, labels, values
	Store                // store values

	All = Fetch | Store
)

// String lists the operations as the log of pmcd does: "fetch store".
func (o Op) String() string {
	var names []string
	if o&Fetch != 0 {
		names = append(names, "fetch")
	}
	if o&Store != 0 {
		names = append(names, "store")
	}
	return strings.Join(names, " ")
}
