package proc

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// credentials are the user and groups of the agent, to be restored after it has
// acted as a client (see credentials(7)).
//
// The credentials of one thread are changed, which is locked to the goroutine of
// the request meanwhile. That takes raw system calls, because those of package
// syscall change all threads. assume changes the effective user and not that of
// the file system (setfsuid(2)): only then does root lose CAP_SYS_PTRACE, which
// gives access to all of /proc. The real and the saved user stay root, so that the
// client can neither trace nor signal the agent.
//
// C differs: it changes the real user, too.
type credentials struct {
	uid, gid int
	groups   []uint32 // supplementary ones
}

func ownCredentials() credentials {
	c := credentials{uid: os.Geteuid(), gid: os.Getegid()}
	groups, _ := syscall.Getgroups()
	for _, g := range groups {
		c.groups = append(c.groups, uint32(g))
	}
	return c
}

const unchangedID = ^uintptr(0) // -1: setresuid(2) keeps this id

// assume makes the thread act as another user and group, without supplementary
// groups, until restore.
func (c *credentials) assume(uid, gid int) error {
	runtime.LockOSThread()
	err := setGroups(nil)
	if err == nil {
		err = setID(sysSetresgid, gid)
	}
	if err == nil {
		err = setID(sysSetresuid, uid)
	}
	if err != nil {
		c.restore()
	}
	return err
}

// restore gives the thread its own credentials back. If that fails it panics with
// the thread still locked, so that the thread ends with the goroutine and is not
// used again.
func (c *credentials) restore() {
	err := setID(sysSetresuid, c.uid)
	if err == nil {
		err = setID(sysSetresgid, c.gid)
	}
	if err == nil {
		err = setGroups(c.groups)
	}
	if err != nil {
		panic(fmt.Sprintf("proc: cannot be root again: %v", err))
	}
	runtime.UnlockOSThread()
}

func setID(trap uintptr, n int) error {
	if _, _, errno := syscall.RawSyscall(trap, unchangedID, uintptr(uint32(n)), unchangedID); errno != 0 {
		return errno
	}
	return nil
}

func setGroups(groups []uint32) error {
	var list unsafe.Pointer
	if len(groups) > 0 {
		list = unsafe.Pointer(&groups[0])
	}
	if _, _, errno := syscall.RawSyscall(sysSetgroups, uintptr(len(groups)), uintptr(list), 0); errno != 0 {
		return errno
	}
	return nil
}
