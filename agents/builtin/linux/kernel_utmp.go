package linux

import (
	"bytes"
	"context"
	"encoding/binary"
	"runtime"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// utmp reads /run/utmp, utmp(5), which has a record for each login session. Without
// the file, as with systemd 256 and later, the number of users is 0.
type utmp struct {
	file                   *sysfile.File
	users, roots, sessions uint64
}

// Layout of struct utmp in utmp.h of glibc, in bytes.
const (
	utUser      = 44 // ut_user
	utUserEnd   = utUser + 32
	userProcess = 7 // USER_PROCESS of ut_type, a short at 0
)

// utSize is the size of a record. Most 64-bit machines use the layout of 32-bit
// machines.
var utSize = map[bool]int{false: 384, true: 400}[runtime.GOARCH == "arm64"]

func newUtmp(h *host) *utmp { return &utmp{file: h.file("run/utmp")} }

func (u *utmp) read(context.Context, *pmda.Request) error {
	b, err := u.file.Read()
	u.parse(b)
	return err
}

func (u *utmp) parse(b []byte) {
	u.users, u.roots, u.sessions = 0, 0, 0
	for ; len(b) >= utSize; b = b[utSize:] {
		u.sessions++
		name, _, _ := bytes.Cut(b[utUser:utUserEnd], []byte{0})
		if binary.NativeEndian.Uint16(b) != userProcess || len(name) == 0 {
			continue
		}
		u.users++
		if string(name) == "root" {
			u.roots++
		}
	}
}

func (u *utmp) metrics() []pmda.Metric {
	value := func(n *uint64) pmda.FetchFunc { return pmda.FromUint(func() (uint64, bool) { return *n, true }) }
	return table(pmda.Metric{Source: &pmda.Source{Read: u.read}}, []row{
		{25, 0, "kernel.all.nusers", u32, instant, none, value(&u.users)},
		{25, 1, "kernel.all.nroots", u32, instant, none, value(&u.roots)},
		{25, 2, "kernel.all.nsessions", u32, instant, none, value(&u.sessions)},
	})
}
