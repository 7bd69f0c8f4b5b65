package session

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// A client that had a container has chosen one for ever: agents have to be told that
// it is in none.
func TestContainer(t *testing.T) {
	var c container
	c.set("")
	if c.chosen {
		t.Error("chosen, without one")
	}
	for _, name := range []string{"box", "", "crate"} {
		c.set(name)
		if got := c.current(); got != name || !c.chosen {
			t.Errorf("got %q, chosen: %v, want %q", got, c.chosen, name)
		}
	}
	find := func(_ context.Context, name string) (string, error) {
		if name == "gone" {
			return "", errors.New("no such container")
		}
		return "in " + name, nil
	}
	host := func() string {
		if h := c.hostname.Load(); h != nil {
			return *h
		}
		return ""
	}
	if c.lookUpHost(find); host() != "in crate" {
		t.Errorf("host %q", host())
	}
	if c.lookUpHost(nil); host() != "" {
		t.Errorf("nothing can find it: host %q", host())
	}
	c.lookUpHost(find)
	c.set("gone")
	if c.lookUpHost(find); host() != "" {
		t.Errorf("of a container that is not there: host %q", host())
	}
	long := strings.Repeat("x", maxContainer)
	for name, want := range map[string]bool{"": false, "a.B-9_": true, "a b": false, "a/b": false, "\x00": false, "\xc3\xa4": false, long: true, long + "x": false} {
		if got := validContainer([]byte(name)); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
