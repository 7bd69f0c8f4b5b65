package conn

import (
	"bytes"
	"crypto/tls"
	"reflect"
	"unsafe"
)

// The buffers of a tls.Conn for input grow to the size of the largest record and of the
// largest message of the handshake, and stay so. With a ClientHello of 60 KB and a record of
// 16 KB, a client had 140 KB as long as it was connected, and 10,000 clients 1.4 GB; with a
// usual ClientHello and that record they had 330 MB, and have 240 MB now.
// crypto/tls has no method for that, so trimBuffers replaces them by empty ones while there
// is nothing in them. What refers to the old memory stays valid.
//
// TestIdleMemory finds out if a version of crypto/tls has other buffers: then these remain.
var inputBuffers = bufferOffsets("rawInput", "hand")

// maxIdleBuffer is the capacity, in bytes, of a buffer that is kept. Most requests need less.
const maxIdleBuffer = 4 << 10

// bufferOffsets returns where fields of a tls.Conn are that are a bytes.Buffer.
func bufferOffsets(names ...string) (offsets []uintptr) {
	for _, name := range names {
		f, ok := reflect.TypeFor[tls.Conn]().FieldByName(name)
		if ok && len(f.Index) == 1 && f.Type == reflect.TypeFor[bytes.Buffer]() {
			offsets = append(offsets, f.Offset)
		}
	}
	return offsets
}

// trimBuffers frees large buffers for input in which there is nothing. It must not be called
// during a Read or the handshake.
func trimBuffers(c *tls.Conn) {
	for _, offset := range inputBuffers {
		b := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), offset))
		if b.Len() == 0 && b.Cap() > maxIdleBuffer {
			*b = bytes.Buffer{}
		}
	}
}
