package proc

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// A credentials is who the agent is, and can be again after it was someone else.
//
// To be someone else is a matter of one thread, which does nothing but the
// request meanwhile: the system calls are made as such, because those of
// package syscall change all threads. It is the effective user, not that of the
// file system (setfsuid(2)), because only then does root give up
// CAP_SYS_PTRACE, which opens all of /proc; the real and the saved user stay
// root, so that the client can neither trace nor signal the agent.
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

const unchangedID = ^uintptr(0) // in place of a user or a group: as it is

// assume makes the thread act as another user and group, without supplementary
// groups, until revert.
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

// restore makes the thread what it was. One that cannot be is never used again:
// the goroutine ends with it.
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
