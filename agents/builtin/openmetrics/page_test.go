package openmetrics

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/pdu"
)

// A line that is not understood costs that line only, and the status names the first one. Behind it,
// what is new needs a value of its type.
func TestBadLines(t *testing.T) {
	for _, tt := range []struct{ name, page, want, status string }{
		{"a quoted name of a label", "# TYPE b gauge\nb{\"http.scheme\"=\"x\",y=\"2\"} 7\n# TYPE c gauge\nc 8\n",
			`b "0 \"http.scheme\":x y:2" 7` + "\nc 8", "success"},
		{"a quoted name of a metric", "a 1\n{\"my.metric\",l=\"1\"} 3\n{\"other\"} 3\nb 2\n", "a 1\nb 2", "2 lines are left out: line 2"},
		{"invalid bytes", "dup{l=\"\xff\"} 1\ndup{l=\"\xff\"} 2\n", `dup "0 l:` + "\ufffd" + `" 2`, "success"},
		{"text", "# c\ntext <html>\nbad{ 1\nlate 1\nbad{ 2\n", "late 1\ntext not available now", "2 lines are left out: line 3: not NAME"},
		{"HTML", "<!DOCTYPE html>\n<html><head>\nbody { color: red }\ncolor: red\nmargin: 0\nis not 1\nx 1\n", "x 1", "6 lines are left out: line 1: \"<!DOCTYPE\": not a name"},
		{"a new instance with text", "m{l=\"1\"} 1\n}\nm{l=\"2\"} text\nm{l=\"3\"} 3\n", `m "0 l:1" 1 "1 l:3" 3`, "2 lines are left out: line 2"},
		{"an instance with text", "m{l=\"1\"} 1\n}\nm{l=\"1\"} text\nn 1\n", "m no such instance\nn 1", "1 lines are left out: line 2"},
		{"no labels after some", "m{a=\"1\"} 1\nm 2\nn 3\n", `m "0 a:1" 1` + "\nn 3", "line 2: m has no labels"},
		{"metadata that is too short", "a 1\n# PCP5 x.y 1.2.3 u64\nb 2\n# c\nc 3\n", "a 1\nc 3", "line 3: the line \"PCP5 x.y u64\" is too short"},
		{"too many labels", "a{" + strings.Repeat("x", 9) + "=\"\"} 1\nb{" + manyLabels() + "} 1\nc 1\n", "a \"0 xxxxxxxxx:\" 1\nc 1", "line 2: a series has more than 128 labels"},
		{"the first line", "%\n%\n\na 1\n# EOF\n", "a 1", "2 lines are left out: line 1"},
		{"long lines", "a 1\n" + strings.Repeat("x", 3*maxLine) + "\nb 2\n" + strings.Repeat("y ", maxLine) + "\r\nc 3\n" + strings.Repeat("z", maxLine), "a 1\nb 2\nc 3", "3 lines are left out: line 2: a line is longer than 64 KiB"},
		{"a byte order mark", "\ufeff# HELP a text\na 1\n", "a 1", "success"},
		{"carriage returns", "a 1\rb 2\r\nc{x=\"1\"} 3\r\r# c\rd 4\r", "a 1\nb 2\n" + `c "0 x:1" 3` + "\nd 4", "success"},
		{"numbers", "a 1_000\nb -nan\nc 1_\n", "a 1000\nb NaN\nc not available now", "success"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.source("a", tt.page)
			a := h.start(Options{})
			want := "a." + strings.ReplaceAll(tt.want, "\n", "\na.")
			for range 2 {
				if got := values(t, a, "a"); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
				if got := status(t, a, "a"); !strings.Contains(got, tt.status) {
					t.Errorf("status %s, want %s", got, tt.status)
				}
			}
		})
	}
}

func manyLabels() string {
	var b strings.Builder
	for i := range maxLabels + 1 {
		fmt.Fprintf(&b, "x%d=\"\",", i)
	}
	return b.String()
}

// A line ends with a newline, a carriage return, or both, however the bytes arrive.
func TestSplitLine(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"", ""},
		{"a", "a|"},
		{"a\n", "a|"},
		{"a\r", "a|"},
		{"a\r\n", "a|"},
		{"a\rb\nc\r\nd\n\re", "a|b|c|d||e|"},
		{"\r\r\n\n", "|||"},
	} {
		for name, r := range map[string]io.Reader{"at once": strings.NewReader(tt.text), "byte by byte": iotest.OneByteReader(strings.NewReader(tt.text))} {
			got := ""
			in := bufio.NewScanner(r)
			in.Split(splitLine)
			for in.Scan() {
				got += in.Text() + "|"
			}
			if got != tt.want || in.Err() != nil {
				t.Errorf("%q, %s: %q, %v; want %q", tt.text, name, got, in.Err(), tt.want)
			}
		}
	}
}

// HELP and TYPE are for all samples up to the next comment, whatever name they have.
func TestBlocks(t *testing.T) {
	h := newHost(t)
	h.source("a", "# HELP a first\n# TYPE a counter\na 1\n\nb 1\n# EOF\nc 1\n# HELP x other\nd 1\n# TYPE d counter\ne 1\n#\nf 1\n")
	a := h.start(Options{})
	for name, want := range map[string]string{"a": "first counter", "b": "first counter", "c": " instant", "d": "other instant", "e": " counter", "f": " instant"} {
		id, err := a.PMID(t.Context(), agents.Origin{}, "openmetrics.a."+name)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := a.Text(t.Context(), agents.Origin{}, id, true)
		d, _ := a.Desc(t.Context(), agents.Origin{}, id)
		sem := map[pdu.Sem]string{pdu.SemCounter: "counter", pdu.SemInstant: "instant"}[d.Sem]
		if got := text + " " + sem; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// A page has the charset that its server names, and is otherwise in UTF-8.
func TestCharsets(t *testing.T) {
	encode := func(e interface{ Bytes([]byte) ([]byte, error) }, s string) string {
		b, err := e.Bytes([]byte(s))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	utf16 := func(e unicode.Endianness, b unicode.BOMPolicy, s string) string {
		return encode(unicode.UTF16(e, b).NewEncoder(), s)
	}
	const page = "m{l=\"Gr\u00fc\u00dfe\"} 1\n"
	const euro = "m{l=\"Gr\u00fc\u00dfe \u20ac\"} 1\n"
	for _, tt := range []struct{ name, contentType, page, want string }{
		{"none named", "text/plain; version=0.0.4", page, "Gr\u00fc\u00dfe"},
		{"no type", "", page, "Gr\u00fc\u00dfe"},
		{"OpenMetrics", "application/openmetrics-text; version=1.0.0", page, "Gr\u00fc\u00dfe"},
		{"UTF-8", "text/plain; charset=UTF-8", page, "Gr\u00fc\u00dfe"},
		{"UTF-8 with a mark", "text/plain; charset=utf-8", "\ufeff" + page, "Gr\u00fc\u00dfe"},
		{"one that is not known", "text/plain; charset=klingon", page, "Gr\u00fc\u00dfe"},
		{"a type with a mistake", "text/plain; charset=", page, "Gr\u00fc\u00dfe"},
		{"invalid bytes", "text/plain", "m{l=\"Gr\xfc\xdfe\"} 1\n", "Gr\ufffd\ufffde"},
		{"Latin-1", "text/plain; charset=ISO-8859-1", "m{l=\"Gr\xfc\xdfe\"} 1\n", "Gr\u00fc\u00dfe"},
		{"Latin-1, C1", "text/plain; charset=latin1", "m{l=\"\x9b\"} 1\n", "\u009b"},
		{"windows-1252", "text/plain; charset=windows-1252", encode(charmap.Windows1252.NewEncoder(), euro), "Gr\u00fc\u00dfe \u20ac"},
		{"in quotes", `text/plain; charset="windows-1252"`, encode(charmap.Windows1252.NewEncoder(), euro), "Gr\u00fc\u00dfe \u20ac"},
		{"ISO-8859-15", "text/plain; charset=iso-8859-15", encode(charmap.ISO8859_15.NewEncoder(), euro), "Gr\u00fc\u00dfe \u20ac"},
		{"Shift JIS", "text/plain; charset=shift_jis", "m{l=\"\x93\xfa\"} 1\n", "\u65e5"},
		{"UTF-16", "text/plain; charset=utf-16", utf16(unicode.LittleEndian, unicode.IgnoreBOM, euro), "Gr\u00fc\u00dfe \u20ac"},
		{"UTF-16 with a mark", "text/plain; charset=UTF-16", utf16(unicode.LittleEndian, unicode.UseBOM, euro), "Gr\u00fc\u00dfe \u20ac"},
		{"UTF-16, big-endian with a mark", "text/plain; charset=utf-16", utf16(unicode.BigEndian, unicode.UseBOM, euro), "Gr\u00fc\u00dfe \u20ac"},
		{"UTF-16BE", "text/plain; charset=utf-16be", utf16(unicode.BigEndian, unicode.IgnoreBOM, euro), "Gr\u00fc\u00dfe \u20ac"},
		{"UTF-16LE with a mark", "text/plain; charset=utf-16le", utf16(unicode.LittleEndian, unicode.UseBOM, euro), "Gr\u00fc\u00dfe \u20ac"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.handle("a", func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Type"] = []string{tt.contentType}
				io.WriteString(w, tt.page)
			})
			a := h.start(Options{})
			if got, want := values(t, a, "a"), fmt.Sprintf("a.m %q 1", "0 l:"+tt.want); got != want {
				t.Errorf("%s, want %s; %s", got, want, status(t, a, "a"))
			}
		})
	}
}

// A page that is compressed is read, also if that was not asked for.
func TestCompression(t *testing.T) {
	const page = "a 1\n"
	compress := func(z func(io.Writer) io.WriteCloser, text string) string {
		var b bytes.Buffer
		w := z(&b)
		io.WriteString(w, text)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	gz := func(s string) string {
		return compress(func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }, s)
	}
	zl := func(s string) string {
		return compress(func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) }, s)
	}
	raw := func(s string) string {
		return compress(func(w io.Writer) io.WriteCloser { z, _ := flate.NewWriter(w, 9); return z }, s)
	}
	for _, tt := range []struct {
		name, encoding, page string
		status               string // contains; "" is success and a value
	}{
		{"gzip", "GZIP", gz(page), ""},
		{"x-gzip", "x-gzip", gz(page), ""},
		{"deflate", "deflate", zl(page), ""},
		{"deflate without the head of zlib", "deflate", raw(page), ""},
		{"both", "deflate, gzip", gz(zl(page)), ""},
		{"none", "identity", page, ""},
		{"a word without a meaning", "utf-8", page, ""},
		{"brotli", "br", page, "the page has the compression br"},
		{"zstd", "gzip, zstd", page, "the page has the compression zstd"},
		{"three times", "gzip, gzip, gzip", gz(gz(gz(page))), "the page is compressed 3 times"},
		{"cut", "deflate", zl(page)[:6], "unexpected EOF"},
		{"not compressed", "deflate", "x", "unexpected EOF"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newHost(t)
			h.handle("a", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", tt.encoding)
				io.WriteString(w, tt.page)
			}, "HEADER: Accept-Encoding: identity")
			a := h.start(Options{})
			got := status(t, a, "a")
			if tt.status == "" {
				if v := values(t, a, "a"); v != "a.a 1" {
					t.Errorf("%s; %s", v, got)
				}
			} else if !strings.Contains(got, tt.status) {
				t.Errorf("status %s, want %s", got, tt.status)
			}
		})
	}
	for _, encoding := range []string{"gzip", "deflate"} {
		h := newHost(t)
		h.handle("a", func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Content-Encoding", encoding) }, "HEADER: Accept-Encoding: identity")
		a := h.start(Options{})
		if got := status(t, a, "a"); got != "success" {
			t.Errorf("an empty page with %s: %s", encoding, got)
		}
	}
}

// The host of an exporter of this host is the name of this host, with and without a port. Addresses,
// and other hosts, are as in the URL.
func TestHostname(t *testing.T) {
	me, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for url, want := range map[string]string{
		"http://localhost/metrics":      me,
		"http://localhost:9100/metrics": me,
		"https://u:p@localhost:9100":    me,
		"file:///nonexistent":           me,
		"http://127.0.0.1:9100/metrics": "127.0.0.1:9100",
		"http://[::1]:9100/metrics":     "[::1]:9100",
		"http://localhost.example:9100": "localhost.example:9100",
		"http://example.com":            "example.com",
		"http://example.com:9100/x":     "example.com:9100",
		"http://LOCALHOST:9100":         "LOCALHOST:9100",
	} {
		h := newHost(t)
		h.file("a.url", url, 0o644)
		a := h.open(Options{})
		a.scan()
		if err := a.sources[0].parseFile(); err != nil {
			t.Fatal(err)
		}
		if got := a.sourceLabels(a.sources[0]); got[0] != (label{"hostname", want}) {
			t.Errorf("%s: %v, want %s", url, got, want)
		}
	}
}
