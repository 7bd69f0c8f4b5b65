package logging

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"

	"go.uber.org/zap/zapcore"
)

// isJournal reports whether fd is the stream to the journal that JOURNAL_STREAM
// names by device and inode (systemd.exec(5)): output may have been redirected
// since that was set.
func isJournal(stream string, fd int) bool {
	var st syscall.Stat_t
	return stream != "" && syscall.Fstat(fd, &st) == nil && stream == fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

// StderrIsJournal reports whether the standard error output leads to the journal.
func StderrIsJournal() bool { return isJournal(os.Getenv("JOURNAL_STREAM"), 2) }

// journalSocket takes entries with fields.
const journalSocket = "/run/systemd/journal/socket"

// A journalCore writes entries to the journal. An entry is a datagram with its fields
// (Native Journal Protocol). If that cannot be sent, the entry goes to the standard error
// output, each line with its priority in front (sd-daemon(3)). There is no time and no pid,
// which the journal has.
//
// The journal knows the unit of a datagram by its process. It keeps what it knows about
// the process as long as the stream of the standard error output is open, so the last
// entries of a process that ends belong to the unit, too.
type journalCore struct {
	zapcore.LevelEnabler
	socket string // path; "" if there is none

	mu sync.Mutex // keeps entries in order
	w  io.Writer
	fd int // of a datagram socket; -1 if there is none
}

// newJournalCore returns a core for the journal whose stream is w. Socket is the path of
// journalSocket, or "" if there is only the stream.
func newJournalCore(w io.Writer, socket string) *journalCore {
	c := &journalCore{LevelEnabler: zapcore.InfoLevel, socket: socket, w: w, fd: -1}
	if _, err := os.Stat(socket); err != nil {
		return c
	}
	// Not package net: it waits for an event before it writes again to a full socket, and
	// there is none for a socket that is not connected. This one is not, because the journal
	// may be restarted.
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return c
	}
	// A journal that hangs must not stop pmcd for ever. Errors leave the defaults of the kernel.
	_ = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_SNDTIMEO, &syscall.Timeval{Sec: 5})
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_SNDBUF, journalMax)
	c.fd = fd
	return c
}

// journalMax is more than the largest table needs, in bytes.
const journalMax = 1 << 20

// With implements zapcore.Core; see textCore.
func (c *journalCore) With([]zapcore.Field) zapcore.Core { return c }

// Check implements zapcore.Core.
func (c *journalCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

// Write implements zapcore.Core. It leaves out empty lines, as the journal does.
func (c *journalCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	priority := 2 // critical
	switch e.Level {
	case zapcore.DebugLevel:
		priority = 7
	case zapcore.InfoLevel:
		priority = 6
	case zapcore.WarnLevel:
		priority = 4
	case zapcore.ErrorLevel, alertLevel:
		priority = 3
	}
	var lines []string
	for line := range strings.SplitSeq(e.Message, "\n") {
		if strings.TrimSpace(line) != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fd >= 0 {
		b := appendJournalField(nil, "MESSAGE", strings.Join(lines, "\n"))
		b = fmt.Appendf(b, "PRIORITY=%d\nSYSLOG_IDENTIFIER=pmcd\n", priority)
		for _, f := range fields {
			b = appendJournalField(b, journalName(f.Key), fieldText(f))
		}
		if syscall.Sendto(c.fd, b, syscall.MSG_NOSIGNAL, &syscall.SockaddrUnix{Name: c.socket}) == nil {
			return nil
		}
	}
	var b strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&b, "<%d>%s\n", priority, line)
	}
	_, err := io.WriteString(c.w, b.String())
	return err
}

// Sync implements zapcore.Core.
func (c *journalCore) Sync() error { return nil }

// appendJournalField appends a field of a datagram. A value with several lines has its
// length in front.
func appendJournalField(b []byte, name, value string) []byte {
	b = append(b, name...)
	if !strings.Contains(value, "\n") {
		b = append(b, '=')
	} else {
		b = append(b, '\n')
		b = binary.LittleEndian.AppendUint64(b, uint64(len(value)))
	}
	b = append(b, value...)
	return append(b, '\n')
}

// journalName returns the name of a field in the journal: PMCD_ and the name in capitals,
// with underscores for what such names cannot have, and at most 64 bytes.
func journalName(name string) string {
	name = "PMCD_" + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, name)
	return name[:min(len(name), 64)]
}

// fieldText returns the value of a field of a Handler as text.
func fieldText(f zapcore.Field) string {
	switch f.Type {
	case zapcore.StringType:
		return f.String
	case zapcore.ArrayMarshalerType:
		if list, ok := f.Interface.(stringList); ok {
			return strings.Join(list, "\n")
		}
	}
	enc := zapcore.NewMapObjectEncoder()
	f.AddTo(enc)
	return fmt.Sprint(enc.Fields[f.Key])
}
