package main

import (
	"fmt"
	"syscall"
)

// signals are those that end an agent through a fault of its own, or without
// a word. A line of the log must do where there is no core dump.
var signals = map[syscall.Signal]struct{ name, means string }{
	syscall.SIGABRT: {"SIGABRT", "it gave up; it may have said why above"},
	syscall.SIGBUS:  {"SIGBUS", "a file that it maps, such as its own code, is shorter than it should be: install that again"},
	syscall.SIGFPE:  {"SIGFPE", "a fault in the agent, such as a division by zero"},
	syscall.SIGILL:  {"SIGILL", "its code is damaged or for another processor"},
	syscall.SIGKILL: {"SIGKILL", "by hand, or by the kernel for want of memory"},
	syscall.SIGSEGV: {"SIGSEGV", "a fault in the agent, such as a bad pointer"},
	syscall.SIGTERM: {"SIGTERM", "by hand"},
}

// ended says how a process that has ended did.
func ended(ws syscall.WaitStatus) error {
	if !ws.Signaled() {
		return fmt.Errorf("the process has exited with status %d", ws.ExitStatus())
	}
	sig, ok := signals[ws.Signal()]
	if !ok {
		return fmt.Errorf("the process was ended by signal %d", ws.Signal())
	}
	return fmt.Errorf("the process was ended by signal %d (%s): %s", ws.Signal(), sig.name, sig.means)
}
