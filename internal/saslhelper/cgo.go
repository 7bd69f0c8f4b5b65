//go:build cgo

package saslhelper

// #cgo LDFLAGS: -ldl
// extern const int pmcd_saslhelper_supported;
import "C"

// Supported reports whether this program can be a SASL helper: with cgo and glibc it can.
var Supported = C.pmcd_saslhelper_supported != 0
