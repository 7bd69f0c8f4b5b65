package linux

import (
	"bytes"
	"errors"
	"fmt"
	"syscall"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
)

// sessionsDir has a file for each session of logind, systemd-logind(8). The format of the files
// is private to systemd, so that there is no value if a file has anything unknown.
//
//	# This is private data. Do not parse.
//	UID=1000
//	USER=ann
//	STATE=active
//	CLASS=user
const sessionsDir = "/run/systemd/sessions"

const (
	maxSessions    = 1 << 14 // twice the default of SessionsMax, logind.conf(5)
	maxSessionFile = 1 << 14 // bytes
)

// errUnknownSession ends the reading of sessions.
var errUnknownSession = errors.New("a session of logind in an unknown format")

// addLogind counts the sessions of users that are not closing. Without logind nothing changes.
func (l *logins) addLogind() error {
	l.names = l.names[:0]
	err := l.h.hostReader.Path(sessionsDir).ListUntil(func(name []byte, typ byte) error {
		switch {
		case !isSessionID(name): // a temporary file, or the FIFO of a session
			return nil
		case typ != syscall.DT_REG && typ != syscall.DT_UNKNOWN, len(l.names) == maxSessions:
			return errUnknownSession
		}
		l.names = append(l.names, string(name))
		return nil
	})
	if sysfile.Kernel.Absent(err) {
		l.known = true // 0, as C has: pcp-uptime(1) fails without a value
		return nil
	}
	for i := 0; err == nil && i < len(l.names); i++ {
		err = l.addSession(l.names[i])
	}
	if l.known = err == nil; errors.Is(err, errUnknownSession) {
		return nil
	}
	return err
}

func (l *logins) addSession(name string) error {
	if err := l.h.ended(); err != nil {
		return err
	}
	b, err := l.h.hostReader.Path(sessionsDir).Str("/").Name(name).Text(maxSessionFile)
	if sysfile.Kernel.Absent(err) {
		return nil // the session has ended
	}
	if err != nil {
		return fmt.Errorf("session %s of logind: %w", name, err)
	}
	counts, root, ok := parseSession(b)
	if !ok {
		return errUnknownSession
	}
	if counts {
		l.users++
		l.sessions++
	}
	if counts && root {
		l.roots++
	}
	return nil
}

// isSessionID reports whether logind may give a session this name.
func isSessionID(name []byte) bool {
	for _, c := range name {
		if (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// parseSession parses the file of a session. counts says whether it is one of a user and not
// closing, root whether the user is root. ok is false if something is missing or unknown.
func parseSession(b []byte) (counts, root, ok bool) {
	if len(b) >= maxSessionFile {
		return false, false, false
	}
	var user, state, class string
	for len(b) > 0 {
		var line []byte
		line, b = sysfile.CutLine(b)
		key, value, _ := bytes.Cut(line, []byte{'='})
		switch string(key) {
		case "USER":
			user = string(value)
		case "STATE":
			state = string(value)
		case "CLASS":
			class = string(value)
		}
	}
	// The classes of pam_systemd(8).
	switch class {
	case "user", "user-early", "user-incomplete", "user-light", "user-early-light":
		counts = true
	case "greeter", "lock-screen", "background", "background-light", "manager", "manager-early", "none":
	default:
		return false, false, false
	}
	switch state {
	case "opening", "online", "active":
	case "closing": // logged out, but processes are left
		counts = false
	default:
		return false, false, false
	}
	return counts, user == "root", user != ""
}
