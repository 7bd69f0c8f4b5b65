//go:build !cgo

package dsohost

const built = false
