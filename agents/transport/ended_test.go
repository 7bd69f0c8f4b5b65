package transport

import (
	"syscall"
	"testing"
)

func TestEnded(t *testing.T) {
	for ws, want := range map[syscall.WaitStatus]string{
		0:                                     "the process has exited with status 0",
		7 << 8:                                "the process has exited with status 7",
		syscall.WaitStatus(syscall.SIGSEGV):   "the process was ended by signal 11 (SIGSEGV): a fault in the agent, such as a bad pointer",
		syscall.WaitStatus(syscall.SIGBUS):    "the process was ended by signal 7 (SIGBUS): a file that it maps, such as its own code, is shorter than it should be: install that again",
		syscall.WaitStatus(syscall.SIGVTALRM): "the process was ended by signal 26",
		0x80 | 6:                              "the process was ended by signal 6 (SIGABRT): it gave up; it may have said why above",
	} {
		if got := Ended(ws).Error(); got != want {
			t.Errorf("%#x: got  %s\nwant %s", uint32(ws), got, want)
		}
	}
}
