package linux

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// logins counts the users that are logged in: the records of /run/utmp, utmp(5), or the
// sessions of logind where nothing writes that file.
type logins struct {
	h                      *host
	utmp                   *sysfile.File
	known                  bool
	users, roots, sessions uint64
	names                  []string // of sessions of logind
}

// Layout of struct utmp in utmp.h of glibc, in bytes.
const (
	utUser      = 44 // ut_user
	utUserEnd   = utUser + 32
	userProcess = 7 // USER_PROCESS of ut_type, a short at 0
)

// utSize is the size of a record. Most 64-bit processors use the layout of 32-bit ones,
// which is __WORDSIZE_TIME64_COMPAT32 in bits/wordsize.h: riscv64, too.
var utSize = utSizeOf(runtime.GOARCH)

func utSizeOf(goarch string) int {
	switch goarch {
	case "arm64", "loong64", "s390x":
		return 400
	}
	return 384
}

func newLogins(h *host) *logins { return &logins{h: h, utmp: h.file("run/utmp")} }

// read reads the records. A system with utmp has at least that of the boot.
//
// C differs: it does not know logind, and without the file all three are 0.
func (l *logins) read(context.Context, *pmda.Request) error {
	l.users, l.roots, l.sessions = 0, 0, 0
	b, err := l.utmp.Read()
	l.known = b != nil
	l.addRecords(b)
	if err == nil && l.sessions == 0 {
		err = l.addLogind()
	}
	return err
}

func (l *logins) addRecords(b []byte) {
	for ; len(b) >= utSize; b = b[utSize:] {
		l.sessions++
		name, _, _ := bytes.Cut(b[utUser:utUserEnd], []byte{0})
		if binary.NativeEndian.Uint16(b) != userProcess || len(name) == 0 {
			continue
		}
		l.users++
		if string(name) == "root" {
			l.roots++
		}
	}
}

func (l *logins) metrics() []pmda.Metric {
	value := func(n *uint64) pmda.FetchFunc {
		return pmda.FromUint(func() (uint64, bool) { return *n, l.known })
	}
	return table(pmda.Metric{Source: &pmda.Source{Read: l.read}}, []row{
		{25, 0, "kernel.all.nusers", u32, instant, none, value(&l.users)},
		{25, 1, "kernel.all.nroots", u32, instant, none, value(&l.roots)},
		{25, 2, "kernel.all.nsessions", u32, instant, none, value(&l.sessions)},
	})
}
