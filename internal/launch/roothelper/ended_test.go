package roothelper

import (
	"syscall"
	"testing"
)

func TestHowEnded(t *testing.T) {
	for status, want := range map[syscall.WaitStatus]string{
		9:      ": signal 9 (SIGKILL), sent by a user or the out-of-memory killer",
		15:     ": signal 15 (SIGTERM)",
		3 << 8: ": exit code 3",
	} {
		if got := HowEnded(status); got != want {
			t.Errorf("status %#x: got %q, want %q", int(status), got, want)
		}
	}
}
