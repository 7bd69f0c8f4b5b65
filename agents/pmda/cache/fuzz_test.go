package cache

import (
	"bytes"
	"strings"
	"testing"
)

// What Load has read, Save writes and Load reads again, with the same bytes.
func FuzzLoad(f *testing.F) {
	f.Add("2 0 2147483647\n0 1700000000 sda\n1 1700000000 [6b6579] sdb disk\n")
	f.Add("1 1\n5 5 [::1]:80\n4 4 x\n4 4 x y\n")
	f.Add("2 1 3\n9 9 a b\n0 0 a c\n1 1 [00] [00] \n")
	f.Fuzz(func(t *testing.T, text string) {
		opt := Options{Dir: "none"}
		c := New(indom, opt)
		n, err := c.load("file", []byte(text))
		if n < 0 || n > strings.Count(text, "\n") {
			t.Fatalf("%d instances in %d lines", n, strings.Count(text, "\n"))
		}
		checkConsistent(t, c)
		first, m := c.text("file", 1)
		if m != len(c.byInst) || err == nil && m > n {
			t.Fatalf("wrote %d of %d instances, read %d", m, len(c.byInst), n)
		}
		back := New(indom, opt)
		if n, err := back.load("file", first); n != m || err != nil {
			t.Fatalf("read %d of %d instances, %v, of\n%s", n, m, err, first)
		}
		if second, _ := back.text("file", 1); !bytes.Equal(first, second) {
			t.Fatalf("first\n%sthen\n%s", first, second)
		}
		for _, name := range []string{"a", "b c", "d", "a"} {
			c.Add(name, nil)
		}
		checkConsistent(t, c)
	})
}
