//go:build !cgo

package saslhelper

// Supported reports whether this program can be a SASL helper: with cgo and glibc it can.
const Supported = false
