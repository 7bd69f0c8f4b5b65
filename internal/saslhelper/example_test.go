package saslhelper_test

import (
	"context"
	"log"
	"os"
	"syscall"

	"github.com/gopcp/pmcd/internal/saslhelper"
)

// This finds out whether libsasl2 can be loaded. The helper says so on the socket and ends.
func ExampleStart() {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		log.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer ours.Close()
	helper, err := saslhelper.Start(saslhelper.Options{Env: saslhelper.Environ(os.Getenv)}, theirs, true)
	theirs.Close()
	if err != nil {
		log.Print(err)
		return
	}
	defer helper.Stop(context.Background())
	message := make([]byte, 1<<10)
	n, err := ours.Read(message)
	log.Printf("%q, %v", message[:n], err)
}
