package transport

import (
	"fmt"
	"syscall"
)

// An Ended says, as an error, how the process of an agent has ended.
type Ended syscall.WaitStatus

// signals are the signals that end an agent because of an error in the agent or its
// installation, or without a message of the agent. There may be no core dump, so the
// log line must explain the signal.
var signals = map[syscall.Signal]struct{ name, means string }{
	syscall.SIGABRT: {"SIGABRT", "it aborted; the reason may be in the lines above"},
	syscall.SIGBUS:  {"SIGBUS", "a file that it maps, such as its program, is too short: install it again"},
	syscall.SIGFPE:  {"SIGFPE", "an error in the agent, such as a division by zero"},
	syscall.SIGILL:  {"SIGILL", "its program is damaged or is for another processor"},
	syscall.SIGKILL: {"SIGKILL", "killed by a user or by the out-of-memory killer"},
	syscall.SIGSEGV: {"SIGSEGV", "an error in the agent, such as an invalid pointer"},
	syscall.SIGTERM: {"SIGTERM", "sent by a user or another program"},
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
