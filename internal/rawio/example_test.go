package rawio_test

import (
	"fmt"
	"os"
	"time"

	"github.com/gopcp/pmcd/internal/rawio"
)

// A pipe of package os has O_NONBLOCK, as NonblockReader requires.
func ExampleNonblockReader() {
	r, w, err := os.Pipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	defer w.Close()
	raw, err := r.SyscallConn()
	if err != nil {
		fmt.Println(err)
		return
	}
	var in rawio.NonblockReader
	in.Init(raw)

	w.WriteString("reply")
	b := make([]byte, 100)
	n, err := in.Read(b)
	fmt.Printf("%q %v\n", b[:n], err)

	r.SetReadDeadline(time.Now()) // the pipe is empty: Read waits until the deadline
	_, err = in.Read(b)
	fmt.Println(os.IsTimeout(err))
	// Output:
	// "reply" <nil>
	// true
}
