package proc

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// An identity is who the agent is, and can be again after it was someone else.
//
// To be someone else is a matter of one thread, which does nothing but the
// request meanwhile: the system calls are made as such, because those of
// package syscall change all threads. It is the effective user, not that of the
// file system (setfsuid(2)), because only then does root give up
// CAP_SYS_PTRACE, which opens all of /proc; the real and the saved user stay
// root, so that the client can neither trace nor signal the agent.
//
// C differs: it changes the real user, too.
type identity struct {
	uid, gid int
	groups   []uint32 // supplementary ones
}

func ownIdentity() identity {
	id := identity{uid: os.Geteuid(), gid: os.Getegid()}
	groups, _ := syscall.Getgroups()
	for _, g := range groups {
		id.groups = append(id.groups, uint32(g))
	}
	return id
}

const keep = ^uintptr(0) // in place of a user or a group: as it is

// become makes the thread act as another user and group, without supplementary
// groups, until revert.
func (id *identity) become(uid, gid int) error {
	runtime.LockOSThread()
	err := setGroups(nil)
	if err == nil {
		err = setID(sysSetresgid, gid)
	}
	if err == nil {
		err = setID(sysSetresuid, uid)
	}
	if err != nil {
		id.revert()
	}
	return err
}

// revert makes the thread what it was. One that cannot be is never used again:
// the goroutine ends with it.
func (id *identity) revert() {
	err := setID(sysSetresuid, id.uid)
	if err == nil {
		err = setID(sysSetresgid, id.gid)
	}
	if err == nil {
		err = setGroups(id.groups)
	}
	if err != nil {
		panic(fmt.Sprintf("proc: cannot be root again: %v", err))
	}
	runtime.UnlockOSThread()
}

func setID(trap uintptr, n int) error {
	if _, _, errno := syscall.RawSyscall(trap, keep, uintptr(uint32(n)), keep); errno != 0 {
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
