// Package message has forms of what messages for people quote.
package message

import (
	"errors"
	"strings"
	"syscall"
	"unicode"
)

// Printable returns s with what is not to be seen replaced by dots.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '.'
	}, s)
}

// Errno is why a socket cannot be connected to, without what the caller knows.
func Errno(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}
