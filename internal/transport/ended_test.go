package transport

import (
	"syscall"
	"testing"
)

func TestEnded(t *testing.T) {
	for ws, want := range map[syscall.WaitStatus]string{
		0:                                     "the process has exited with status 0",
		7 << 8:                                "the process has exited with status 7",
		syscall.WaitStatus(syscall.SIGSEGV):   "the process was ended by signal 11 (SIGSEGV): an error in the agent, such as an invalid pointer",
		syscall.WaitStatus(syscall.SIGBUS):    "the process was ended by signal 7 (SIGBUS): a file that it maps, such as its program, is too short: install it again",
		syscall.WaitStatus(syscall.SIGVTALRM): "the process was ended by signal 26",
		0x80 | 6:                              "the process was ended by signal 6 (SIGABRT): it aborted; the reason may be in the lines above",
	} {
		if got := Ended(ws).Error(); got != want {
			t.Errorf("%#x: got  %s\nwant %s", uint32(ws), got, want)
		}
	}
}
