// Package message has functions for the texts that pmcd and pmcdctl print.
package message

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/gopcp/pmcd/internal/logtext"
)

// Printable returns s with characters that are not printable as Go writes them in strings. Unlike
// those of [logtext.Printable], tabs are among them: they separate columns.
func Printable(s string) string {
	return strings.ReplaceAll(logtext.Printable(s), "\t", `\t`)
}

// NewJSONEncoder returns an encoder whose text cannot control a terminal: in strings, all
// characters that are not printable are escaped. Those of package json leave some, such as DEL
// and those that change the direction of text.
func NewJSONEncoder(w io.Writer) *json.Encoder { return json.NewEncoder(jsonEscaper{w}) }

// A jsonEscaper gets whole documents.
type jsonEscaper struct{ w io.Writer }

// Write implements [io.Writer].
func (e jsonEscaper) Write(b []byte) (int, error) {
	var out []byte
	for _, r := range string(b) {
		switch {
		case r == '\n' || unicode.IsPrint(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, "\\u%04x\\u%04x", high, low)
		default:
			out = fmt.Appendf(out, "\\u%04x", r)
		}
	}
	_, err := e.w.Write(out)
	return len(b), err
}

// Errno returns the errno in err without operation and address, or err if it has
// none.
func Errno(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}

// Micros returns a number of microseconds as text, with three digits.
func Micros(us int64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%dus", us)
	case us < 999500:
		return fmt.Sprintf("%.3gms", float64(us)/1e3)
	case us < 99950*1000:
		return fmt.Sprintf("%.3gs", float64(us)/1e6)
	}
	return fmt.Sprintf("%.0fs", float64(us)/1e6)
}

// UserName returns "user NAME", or "user UID" if the user has no name.
func UserName(uid int64) string {
	if u, err := user.LookupId(fmt.Sprint(uid)); err == nil {
		return "user " + u.Username
	}
	return fmt.Sprintf("user %d", uid)
}
