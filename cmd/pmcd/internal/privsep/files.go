package privsep

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// WithFileRights calls f, which then has the rights of the user for files, and returns when
// f has returned. This process must be root's. Only the goroutine of f has these rights,
// and not one that f starts.
func (id *Identity) WithFileRights(f func()) error {
	done := make(chan error)
	go func() {
		// The thread has the rights of the user for good, and ends with this goroutine.
		runtime.LockOSThread()
		err := id.setFileRights()
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
}

// setFileRights sets the rights of this thread for files.
func (id *Identity) setFileRights() error {
	if err := unix.Setgroups(id.Groups); err != nil { // of this thread, unlike syscall.Setgroups
		return fmt.Errorf("cannot look at files as user %s: setgroups: %w", id.Name, err)
	}
	for _, set := range []struct {
		name string
		id   int
		do   func(int) (int, error)
	}{{"setfsgid", id.GID, unix.SetfsgidRetGid}, {"setfsuid", id.UID, unix.SetfsuidRetUid}} {
		// The calls report no errors. They return the id that was set before.
		set.do(set.id)
		if now, err := set.do(set.id); err != nil || now != set.id {
			return fmt.Errorf("cannot look at files as user %s: %s: the id is %d (%v)", id.Name, set.name, now, err)
		}
	}
	return nil
}
