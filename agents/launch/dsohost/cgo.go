//go:build cgo

package dsohost

// #cgo LDFLAGS: -ldl
// extern const int pmcd_dsohost_built;
import "C"

// built reports whether this program can be a host.
var built = C.pmcd_dsohost_built != 0
