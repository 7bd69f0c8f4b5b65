package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"syscall"
	"testing"
	"time"
)

// The reason of a failure is in words that do not need the source.
func TestReason(t *testing.T) {
	const most = time.Millisecond
	ctx, cancel := StartContext(t.Context(), most)
	defer cancel()
	<-ctx.Done()
	tcp := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2001}
	unix := &net.UnixAddr{Net: "unix", Name: "/run/a.sock"}
	refused := &net.OpError{Op: "dial", Net: "tcp4", Addr: tcp, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{errors.New("no luck"), "no luck"},
		{noAnswer(3 * time.Second), "no answer in 3 s (-q)"},
		{fmt.Errorf("cannot negotiate: %w", context.Cause(ctx)), "cannot negotiate: no answer in 1ms (-q)"},
		{fmt.Errorf("cannot negotiate: %w", ctx.Err()), "cannot negotiate: no answer in time"},
		{fmt.Errorf("cannot negotiate: %w (%w)", io.ErrUnexpectedEOF, Ended(3<<8)), "cannot negotiate: it closed the connection (the process has exited with status 3)"},
		{io.EOF, "it closed the connection"},
		{&fs.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}, "it closed the connection"},
		{&fs.PathError{Op: "read", Path: "|0", Err: os.ErrClosed}, "the connection is closed"},
		{&fs.PathError{Op: "open", Path: "/none", Err: syscall.ENOENT}, "open /none: no such file or directory"},
		{refused, "cannot connect to 127.0.0.1:2001: connection refused"},
		{fmt.Errorf("%w; %w", refused, context.Cause(ctx)), "cannot connect to 127.0.0.1:2001: connection refused; no answer in 1ms (-q)"},
		{&net.OpError{Op: "dial", Net: "unix", Addr: unix, Err: os.NewSyscallError("connect", syscall.ENOENT)}, "cannot connect to /run/a.sock: no such file or directory"},
		{&net.OpError{Op: "dial", Net: "tcp4", Addr: tcp, Err: os.ErrDeadlineExceeded}, "cannot connect to 127.0.0.1:2001: no answer in time"},
		{&net.OpError{Op: "read", Net: "unix", Source: unix, Addr: unix, Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "it closed the connection"},
	} {
		t.Run(tt.want, func(t *testing.T) {
			if got := Reason(tt.err); got != tt.want {
				t.Errorf("%v\n  got  %q\n  want %q", tt.err, got, tt.want)
			}
		})
	}
	if !errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		t.Error("it is not the error of a deadline any more")
	}
}
