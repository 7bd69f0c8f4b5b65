package watch

import (
	"os"

	"golang.org/x/sys/unix"
)

// A Key is what a key of the terminal means.
type Key int

// The keys of a screen.
const (
	Quit     Key = iota + 1 // q
	Sort                    // s: by value, or again in the order of the names
	Up                      // k, arrow
	Down                    // j, arrow
	PageUp                  // b, page up
	PageDown                // space, page down
)

// keyNames are what terminals send for keys (ECMA-48, and xterm's application mode).
var keyNames = map[string]Key{
	"q": Quit, "s": Sort, "k": Up, "j": Down, "b": PageUp, " ": PageDown,
	"\x1b[A": Up, "\x1b[B": Down, "\x1bOA": Up, "\x1bOB": Down, "\x1b[5~": PageUp, "\x1b[6~": PageDown,
}

// Keys has the terminal tty deliver each key at once, and returns the keys. It returns nil if
// tty is no terminal, or if this process is in its background. restore is never nil.
func Keys(tty *os.File) (keys <-chan Key, restore func()) {
	restore = func() {}
	fd := int(tty.Fd())
	old, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, restore
	}
	// In the background, the system would stop the process for the next call.
	if group, err := unix.IoctlGetInt(fd, unix.TIOCGPGRP); err != nil || group != unix.Getpgrp() {
		return nil, restore
	}
	mode := *old
	mode.Lflag &^= unix.ICANON | unix.ECHO
	mode.Cc[unix.VMIN], mode.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(fd, unix.TCSETS, &mode) != nil {
		return nil, restore
	}
	ch := make(chan Key)
	go func() { // it ends with the process
		var b [64]byte
		for {
			n, err := tty.Read(b[:])
			if err != nil {
				return
			}
			for _, k := range parseKeys(string(b[:n])) {
				ch <- k
			}
		}
	}()
	return ch, func() { unix.IoctlSetTermios(fd, unix.TCSETS, old) }
}

// parseKeys returns the keys in s. It leaves out what is none.
func parseKeys(s string) (keys []Key) {
	for s != "" {
		n := 1
		if s[0] == '\x1b' && len(s) > 2 {
			for n = 2; n < len(s) && (s[n] < '@' || s[n] > '~'); n++ {
			}
			n = min(n+1, len(s))
		}
		if k := keyNames[s[:n]]; k != 0 {
			keys = append(keys, k)
		}
		s = s[n:]
	}
	return keys
}
