package root

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
)

func words(ns ...int32) (b []byte) {
	for _, n := range ns {
		b = binary.NativeEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// about returns a request about a container.
func about(typ int32, name string) []byte {
	return append(words(typ, int32(24+len(name)), 0, 2, 0, int32(len(name))), name...)
}

var startRequest = append(append(words(msgStart, 16+24+64+5, 0, 2, 0, 0, 0, 2, 3, 5), append([]byte("abc"), make([]byte, 61)...)...), "a b c"...)

func TestReadRequest(t *testing.T) {
	long := strings.Repeat("x", maxNameLen)
	for _, tt := range []struct {
		name string
		in   []byte
		want request
		err  error
		rest int // bytes of the next request
	}{
		{"host name", about(msgHostName, "web"), request{msgHostName, 0, "web"}, nil, 0},
		{"process", about(msgProcessID, "web"), request{msgProcessID, 0, "web"}, nil, 0},
		{"group", about(msgCgroup, "web"), request{msgCgroup, 0, "web"}, nil, 0},
		{"host name of a process", words(msgHostName, 24, 0, 2, 77, 0), request{msgHostName, 77, ""}, nil, 0},
		{"version 1", append(words(msgCgroup, 27, 0, 1, 0, 3), "web"...), request{msgCgroup, 0, "web"}, nil, 0},
		{"a status", append(words(msgCgroup, 27, 1, 2, 0, 3), "web"...), request{msgCgroup, 0, "web"}, nil, 0},
		{"bytes after the name", append(words(msgCgroup, 29, 0, 2, 0, 3), "webxx"...), request{msgCgroup, 0, "web"}, nil, 0},
		{"two requests", append(about(msgCgroup, "web"), about(msgCgroup, "db")...), request{msgCgroup, 0, "web"}, nil, 26},
		{"the longest name", about(msgCgroup, long), request{msgCgroup, 0, long}, nil, 0},
		{"start", startRequest, request{msgStart, 0, ""}, nil, 0},
		{"the longest start", append(words(msgStart, startLen+maxStartArgs, 0, 2, 5), make([]byte, startLen+maxStartArgs-20)...), request{msgStart, 5, ""}, nil, 0},
		{"the shortest start", words(msgStart, 20, 0, 2, 5), request{msgStart, 5, ""}, nil, 0},
		{"stop", words(msgStop, 32, 0, 2, 77, 0, 1, 0), request{msgStop, 77, ""}, nil, 0},
		{"a short stop", words(msgStop, 28, 0, 2, 77, 0, 1), request{msgStop, 77, ""}, nil, 0},

		{"nothing", nil, request{}, io.EOF, 0},
		{"half a header", words(msgCgroup, 27), request{}, io.ErrUnexpectedEOF, 0},
		{"only a header", words(msgCgroup, 27, 0, 2), request{}, io.ErrUnexpectedEOF, 0},
		{"half a name", append(words(msgCgroup, 27, 0, 2, 0, 3), 'w'), request{}, io.ErrUnexpectedEOF, 0},
		{"half a long start", append(words(msgStart, startLen+maxStartArgs, 0, 2), make([]byte, 4150)...), request{}, io.ErrUnexpectedEOF, 0},
		{"a greeting", words(msgInfo, 24, 0, 2, 7, 0), request{}, errMessage, 8},
		{"a reply", append(words(msgHostName+1, 27, 0, 2, 0, 3), "web"...), request{}, errMessage, 11},
		{"unknown", words(0x900b, 24, 0, 2, 0, 0), request{}, errMessage, 8},
		{"a later version", append(words(msgCgroup, 27, 0, 3, 0, 3), "web"...), request{}, errMessage, 11},
		{"a negative status", append(words(msgCgroup, 27, -1, 2, 0, 3), "web"...), request{}, errMessage, 11},
		{"no name", words(msgCgroup, 24, 0, 2, 0, 0), request{}, errMessage, 0},
		{"a name of negative length", append(words(msgCgroup, 27, 0, 2, 0, -3), "web"...), request{}, errMessage, 0},
		{"a name beyond the message", append(words(msgCgroup, 27, 0, 2, 0, 4), "webx"...), request{}, errMessage, 1},
		{"a name of 2 GiB", append(words(msgCgroup, 27, 0, 2, 0, 1<<31-1), "web"...), request{}, errMessage, 0},
		{"too short", words(msgCgroup, 20, 0, 2, 0), request{}, errMessage, 4},
		{"too long", words(msgCgroup, 24+maxNameLen+1, 0, 2, 0, 1), request{}, errMessage, 8},
		{"of negative length", words(msgCgroup, -1, 0, 2, 0, 1), request{}, errMessage, 8},
		{"of 2 GiB", words(msgStart, 1<<31-1, 0, 2, 0, 1), request{}, errMessage, 8},
		{"a long stop", words(msgStop, 33, 0, 2, 77, 0, 1, 0), request{}, errMessage, 16},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, begun := bytes.NewReader(tt.in), 0
			q, err := readRequest(r, func() { begun++ })
			if q != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %.100v, %v, want %.100v, %v", q, err, tt.want, tt.err)
			}
			if r.Len() != tt.rest {
				t.Errorf("%d bytes are left, want %d", r.Len(), tt.rest)
			}
			if (begun == 1) != (len(tt.in) > 0) {
				t.Errorf("begun is called %d times", begun)
			}
		})
	}
}

// Replies are those of pmdaroot. The bytes are of a host whose byte order is little
// endian.
func TestReplies(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Log("the bytes are compared on little endian hosts only")
		return
	}
	for _, tt := range []struct {
		name string
		got  []byte
		want string
	}{
		{"greeting", appendInfo(nil), "00900000 18000000 00000000 02000000 07000000 00000000"},
		{"host name", appendReply(nil, msgHostName, 0, 4711, "box"), "02900000 1b000000 00000000 02000000 67120000 03000000 626f78"},
		{"not running", appendReply(nil, msgProcessID, 0, -1, ""), "04900000 18000000 00000000 02000000 ffffffff 00000000"},
		{"no container", appendReply(nil, msgCgroup, -12399, 0, ""), "06900000 18000000 91cfffff 02000000 00000000 00000000"},
		{"start", appendDenied(nil, request{typ: msgStart}), "08900000 68000000 9dcfffff 02000000 ffffffff" + strings.Repeat("00", 84)},
		{"stop", appendDenied(nil, request{typ: msgStop, pid: 77}), "0a900000 20000000 9dcfffff 02000000 4d000000" + strings.Repeat("00", 12)},
	} {
		if got, want := hex.EncodeToString(tt.got), strings.ReplaceAll(tt.want, " ", ""); got != want {
			t.Errorf("%s\n got %s\nwant %s", tt.name, got, want)
		}
	}
	if b := appendReply(nil, msgCgroup, 0, 1, strings.Repeat("x", 5000)); len(b) != 24+4095 {
		t.Errorf("a long name makes a message of %d bytes", len(b))
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(about(msgHostName, "web"))
	f.Add(words(msgHostName, 24, 0, 2, 77, 0))
	f.Add(startRequest)
	f.Add(words(msgStop, 32, 0, 2, 77, 0, 1, 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		q, err := readRequest(r, func() {})
		if err != nil {
			return
		}
		if used := len(b) - r.Len(); used != int(int32(binary.NativeEndian.Uint32(b[4:]))) {
			t.Errorf("%d bytes of a message of another length are read", used)
		}
		if len(q.name) > maxNameLen {
			t.Errorf("a name of %d bytes", len(q.name))
		}
		s := &server{table: newTable(options("/nonexistent"))}
		if reply := s.reply(nil, q); len(reply) > 4120 || len(reply) != int(binary.NativeEndian.Uint32(reply[4:])) ||
			int32(binary.NativeEndian.Uint32(reply)) != q.typ+1 {
			t.Errorf("%+v: reply %x", q, reply)
		}
	})
}
