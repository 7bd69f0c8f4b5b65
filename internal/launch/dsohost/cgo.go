//go:build cgo

package dsohost

// #cgo LDFLAGS: -ldl
// extern const int pmcd_dsohost_supported;
import "C"

// supported reports whether this program can be a host: with glibc it can.
var supported = C.pmcd_dsohost_supported != 0
