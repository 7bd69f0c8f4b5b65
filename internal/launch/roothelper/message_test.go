package roothelper

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pmcdconf"
)

var messages = []message{
	{kind: msgStart, id: 1, domain: 510, digest: [32]byte{1, 31: 2}},
	{kind: msgStop, id: 2},
	{kind: msgStop, id: 0xffffffff, now: true},
	{kind: msgStarted, id: 3, pid: 4711},
	{kind: msgRefused, id: 4, text: "because"},
	{kind: msgAskHostName, id: 5, text: "box"},
	{kind: msgHostName, id: 6, text: "host"},
	{kind: msgRefused, id: 4},
	{kind: msgExited, id: 5, status: 0x80},
	{kind: msgStopped, id: 6},
	{kind: msgUntrusted, id: 7, text: "au100 /path"},
	{kind: msgAskProcess, id: 8, text: "box"},
	{kind: msgProcess, id: 8, pid: 4711},
}

func TestMessage(t *testing.T) {
	for _, want := range messages {
		t.Run(fmt.Sprintf("%+v", want), func(t *testing.T) {
			text := slices.Contains([]kind{msgAskHostName, msgAskProcess, msgHostName, msgRefused, msgUntrusted}, want.kind) // of any length
			b := want.append(nil)
			if m, err := parseMessage(b); err != nil || m != want {
				t.Errorf("%+v is encoded as %x, which is parsed as %+v, %v", want, b, m, err)
			}
			for n := range b {
				if m, err := parseMessage(b[:n]); err == nil && (!text || n < 5) {
					t.Errorf("%x is parsed as %+v", b[:n], m)
				}
			}
			if m, err := parseMessage(append(b, 0)); err == nil && !text {
				t.Errorf("%x and one byte more is parsed as %+v", b, m)
			}
		})
	}
	long := message{kind: msgRefused, text: strings.Repeat("x", 5000)}
	if m, err := parseMessage(long.append(nil)); err != nil || len(m.text) != maxText {
		t.Errorf("a long reason is parsed as %d bytes, %v", len(m.text), err)
	}
	for _, b := range [][]byte{nil, {0, 0, 0, 0, 1}, {12, 0, 0, 0, 1}, {255, 0, 0, 0, 1}, {2, 0, 0, 0, 1, 2}, make([]byte, maxMessage+1)} {
		if m, err := parseMessage(b); !errors.Is(err, errMessage) {
			t.Errorf("%x: %+v, %v", b, m, err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, m := range messages {
		f.Add(m.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := parseMessage(b)
		if err == nil && !bytes.Equal(m.append(nil), b) {
			t.Errorf("%x is parsed as %+v, which is encoded as %x", b, m, m.append(nil))
		}
	})
}

// The digest changes with everything that determines what is started.
func TestDigest(t *testing.T) {
	seen := make(map[[32]byte]string)
	for _, text := range []string{
		"a 1 pipe binary x y z", "b 1 pipe binary x y z", "a 2 pipe binary x y z", `a 1 pipe binary x "y z"`,
		"a 1 pipe binary x y", "a 1 socket inet 80 x y z", "a 1 socket inet 81 x y z", "a 1 socket ipv6 80 x y z",
		"a 1 socket unix 80 x y z", "a 1 dso i /x", "a 1 dso j /x", "a 1 dso i /y",
	} {
		conf, err := pmcdconf.Parse("conf", strings.NewReader(text+"\n"), pmcdconf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d := digest(&conf.Agents[0])
		if other, ok := seen[d]; ok {
			t.Errorf("%q and %q have the same digest", text, other)
		}
		seen[d] = text
	}
}
