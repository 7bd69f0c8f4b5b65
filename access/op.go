// Package access says who may connect to pmcd and what he may do there: the
// [access] section of pmcd.conf as data (pmcd(1), "ACCESS CONTROL
// CONFIGURATION").
//
// It knows no files and no syntax; package pmcdconf turns text into Rules. It
// looks up no names either: addresses and ids are resolved by whoever makes a
// Rule, and what must be asked later goes through a Resolver.
//
// Rules and counts are two things here. A List is immutable and is replaced as
// a whole when the configuration is read again; a Counter holds the live
// connections, survives that, and counts them afresh under the new List.
package access

import "strings"

// An Op is a set of operations, one bit each (PMCD_OP_* of pmcd).
type Op uint32

const (
	Fetch Op = 1 << iota // ask for metrics: descriptors, names, help, labels, values
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
