package message

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"é x":                            "é x",
		"a\tb\nc\x1b[0m\u009b\u202e\xff": `a\tb\nc\x1b[0m\u009b\u202e\xff`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("%q: got %s, want %s", in, got, want)
		}
	}
}

// JSON has no control characters, and the same values.
func TestJSONEncoder(t *testing.T) {
	const text = "é\x1b\x7f\u009b\u202e\U000e0001\n<"
	var b bytes.Buffer
	enc := NewJSONEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode([]string{text}); err != nil {
		t.Fatal(err)
	}
	if want := "[\n \"é\\u001b\\u007f\\u009b\\u202e\\udb40\\udc01\\n<\"\n]\n"; b.String() != want {
		t.Errorf("got %q\nwant %q", &b, want)
	}
	var got []string
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got[0] != text {
		t.Errorf("decoded: %q, %v", got, err)
	}
}

func TestMicros(t *testing.T) {
	for us, want := range map[int64]string{0: "0us", 999: "999us", 1000: "1ms", 12345: "12.3ms", 999499: "999ms", 999500: "1s", 1234567: "1.23s", 61e6: "61s", 12345678901: "12346s"} {
		if got := Micros(us); got != want {
			t.Errorf("Micros(%d) = %s, want %s", us, got, want)
		}
	}
}
