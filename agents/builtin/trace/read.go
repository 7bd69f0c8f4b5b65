package trace

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
)

// nextPDU returns the next PDU, which stays in the buffer of in.
func nextPDU(c net.Conn, in *bufio.Reader) (whole []byte, err error) {
	if _, err := in.Peek(1); err != nil {
		return nil, err
	}
	if !complete(in) {
		c.SetReadDeadline(time.Now().Add(restTimeout))
		defer c.SetReadDeadline(time.Time{})
	}
	header, err := in.Peek(tracepdu.HeaderLen)
	if err == nil {
		var n int
		if n, err = tracepdu.Length(header); err != nil {
			return nil, err
		}
		whole, err = in.Peek(n)
	}
	switch {
	case err == io.EOF:
		err = io.ErrUnexpectedEOF
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("the rest of a PDU has not arrived within %v", restTimeout)
	}
	return whole, err
}

// complete reports whether the next PDU has arrived.
func complete(in *bufio.Reader) bool {
	if in.Buffered() < tracepdu.HeaderLen {
		return false
	}
	header, _ := in.Peek(tracepdu.HeaderLen)
	return in.Buffered() >= int(min(binary.BigEndian.Uint32(header), tracepdu.MaxLen))
}
