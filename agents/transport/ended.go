package transport

import (
	"fmt"
	"syscall"
)

// An Ended says, as an error, how the process of an agent has ended.
type Ended syscall.WaitStatus

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

func (e Ended) Error() string {
	ws := syscall.WaitStatus(e)
	if !ws.Signaled() {
		return fmt.Sprintf("the process has exited with status %d", ws.ExitStatus())
	}
	text := fmt.Sprintf("the process was ended by signal %d", ws.Signal())
	if sig, ok := signals[ws.Signal()]; ok {
		text += fmt.Sprintf(" (%s): %s", sig.name, sig.means)
	}
	return text
}
