package linux

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A request waits for at most a second in all. There is no second call for a name
// until the abandoned one has returned, and a descriptor that it has opened is
// closed.
func TestTimeoutGuard(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	synctest.Test(t, func(t *testing.T) {
		g := newTimeoutGuard()
		g.begin()
		if a, err := g.call("good", func(a *callResult) error { a.statfs.Blocks = 7; return nil }); err != nil || a.statfs.Blocks != 7 {
			t.Fatalf("%v, %v", a, err)
		}
		if _, err := g.call("bad", func(*callResult) error { return syscall.ENOENT }); err != syscall.ENOENT {
			t.Fatalf("%v, want ENOENT", err)
		}
		if _, err := g.call("slow", func(*callResult) error { time.Sleep(600 * time.Millisecond); return nil }); err != nil {
			t.Fatal(err)
		}
		var fd int
		began, result := time.Now(), make(chan error)
		open := func(a *callResult) (err error) {
			fd, err = syscall.Dup(int(null.Fd()))
			a.fd = fd
			return errors.Join(err, <-result)
		}
		if _, err := g.call("stuck", open); err != pdu.ErrnoAgain || time.Since(began) != 400*time.Millisecond {
			t.Fatalf("%v after %v, want PM_ERR_AGAIN after 400ms", err, time.Since(began))
		}
		none := func(*callResult) error { t.Error("called"); return nil }
		if _, err := g.call("good", none); err != pdu.ErrnoAgain {
			t.Errorf("%v without time left", err)
		}
		g.begin()
		if _, err := g.call("stuck", none); err != pdu.ErrnoAgain {
			t.Errorf("%v while a call for the name is pending", err)
		}
		result <- nil
		synctest.Wait()
		var st syscall.Stat_t
		if err := syscall.Fstat(fd, &st); err != syscall.EBADF {
			t.Errorf("the descriptor of an abandoned call: %v, want EBADF", err)
		}
		if _, err := g.call("stuck", func(*callResult) error { return nil }); err != nil {
			t.Errorf("%v after the call has returned", err)
		}

		end := make(chan error)
		for i := range maxPending {
			g.begin()
			if _, err := g.call(fmt.Sprint(i), func(*callResult) error { return <-end }); err != pdu.ErrnoAgain {
				t.Fatal(err)
			}
		}
		g.begin()
		if _, err := g.call("more", none); err != pdu.ErrnoAgain {
			t.Errorf("%v with %d pending calls", err, maxPending)
		}
		close(end)
	})
}
