package trace

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gopcp/pmcd/internal/tracepdu"
)

// A noDeadline is a connection that has no deadlines.
type noDeadline struct{ net.Conn }

func (noDeadline) SetReadDeadline(time.Time) error { return nil }

// pdus returns the PDUs that r has, and the error at their end.
func pdus(r io.Reader) (list []string, err error) {
	in := bufio.NewReaderSize(r, 2048)
	for {
		b, err := nextPDU(noDeadline{}, in)
		if err != nil {
			return list, err
		}
		list = append(list, string(b))
		in.Discard(len(b))
	}
}

// PDUs are those of the input, whatever parts it arrives in, up to one with a length that
// is not allowed or that is not complete.
func FuzzNextPDU(f *testing.F) {
	one := tracepdu.AppendData(nil, 1, tracepdu.Data{Kind: tracepdu.Point, Tag: "tag"})
	f.Add(bytes.Repeat(one, 100))
	f.Add(one[:20])
	f.Add(one[:3])
	f.Add(append(tracepdu.AppendACK(nil, 1, 1), one...))
	f.Add([]byte("\xff\xff\xff\xff0123456789abcdef"))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := pdus(bytes.NewReader(b))
		parts, err2 := pdus(iotest.OneByteReader(bytes.NewReader(b)))
		all := strings.Join(list, "")
		if strings.Join(parts, "") != all || len(parts) != len(list) || err.Error() != err2.Error() {
			t.Fatalf("%q, %v; in parts %q, %v", list, err, parts, err2)
		}
		if !bytes.HasPrefix(b, []byte(all)) || (err == io.EOF) != (len(all) == len(b)) {
			t.Fatalf("%d of %d bytes: %v", len(all), len(b), err)
		}
		for _, p := range list {
			if n, err := tracepdu.Length([]byte(p)); err != nil || n != len(p) {
				t.Fatalf("a PDU of %d bytes: %d, %v", len(p), n, err)
			}
		}
	})
}
