// Package message has functions for the texts that pmcd and pmcdctl print.
package message

import (
	"errors"
	"strings"
	"syscall"
	"unicode"
)

// Printable returns s with a dot in place of each character that is not printable.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '.'
	}, s)
}

// Errno returns the errno in err without operation and address, or err if it has
// none.
func Errno(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
