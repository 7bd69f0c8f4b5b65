package linux

import (
	"context"
	"os"
	"path"
	"strings"
	"time"

	"github.com/gopcp/pmcd/agents/pmda"
)

// uuids has the UUIDs of file systems. Udev makes a link to the device for each:
//
//	/dev/disk/by-uuid/9c6b3a3e-2a5e-4a2b-8a53-0a2b1e1c8f00 -> ../../vda1
//
// The links are read again if the directory has changed, and if that was less than a second
// before they were read: a second change in one tick of the kernel's clock does not show.
type uuids struct {
	h        *host
	mtime    time.Time         // of the directory; zero if there is none
	byDevice map[string]string // by the kernel's name of the device: vda1
}

const uuidDir = "/dev/disk/by-uuid"

func (u *uuids) read(context.Context, *pmda.Request) error {
	st, err := os.Stat(u.h.path(uuidDir))
	if err != nil {
		u.mtime, u.byDevice = time.Time{}, nil
		return nil
	}
	if st.ModTime().Equal(u.mtime) {
		return nil
	}
	u.byDevice = make(map[string]string)
	for _, uuid := range dirNames(u.h.path(uuidDir)) {
		if err := u.h.ended(); err != nil {
			u.mtime = time.Time{} // links are missing
			return err
		}
		if to, err := u.h.hostReader.Path(uuidDir).Str("/").Name(uuid).Link(); err == nil {
			u.byDevice[path.Base(string(to))] = uuid
		}
	}
	if u.mtime = st.ModTime(); time.Since(u.mtime) < time.Second {
		u.mtime = time.Time{}
	}
	return nil
}

// of returns the UUID of the file system on a device, or "".
func (u *uuids) of(device string) string {
	if !strings.HasPrefix(device, "/dev/") || len(u.byDevice) == 0 {
		return ""
	}
	if strings.HasPrefix(device, "/dev/mapper/") || strings.HasPrefix(device, "/dev/md/") {
		if to, err := u.h.hostReader.Path(path.Clean(device)).Link(); err == nil {
			device = string(to)
		}
	}
	return u.byDevice[path.Base(device)]
}
