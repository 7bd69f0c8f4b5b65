//go:build !cgo

package dsohost

const supported = false
