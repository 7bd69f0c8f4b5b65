package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/rawio"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

func unixPair(t *testing.T) (fds [2]int) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fds
}

// The Client of an agent that sends descriptors ends.
func TestAgentPassesDescriptors(t *testing.T) {
	fds := unixPair(t)
	defer syscall.Close(fds[1])
	f := os.NewFile(uintptr(fds[0]), "agent")
	conn, err := net.FileConn(f)
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	creds, err := pdu.Append(nil, 0, &pdu.Creds{Creds: []pdu.Cred{pdu.VersionCred(0)}})
	if err != nil {
		t.Fatal(err)
	}
	syscall.Write(fds[1], creds)
	c, err := Dial(context.Background(), conn.(Conn), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req, err := pdu.Append(nil, 0, &pdu.DescReq{PMID: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Sendmsg(fds[1], creds, syscall.UnixRights(0), nil, 0); err != nil {
		t.Fatal(err)
	}
	call := &transport.Call{Req: req, Timeout: testutil.Hangs}
	_, err = transport.Do(c, call, nil)
	if !errors.Is(err, rawio.ErrRights) || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}
