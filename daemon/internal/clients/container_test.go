package clients

import (
	"context"
	"errors"
	"strings"
	"testing"
)

// A client that had a container has chosen one for ever: agents have to be told that
// it is in none.
func TestContainer(t *testing.T) {
	var c Container
	c.Set("")
	if c.Chosen {
		t.Error("chosen, without one")
	}
	for _, name := range []string{"box", "", "crate"} {
		c.Set(name)
		if got := c.Name(); got != name || !c.Chosen {
			t.Errorf("got %q, chosen: %v, want %q", got, c.Chosen, name)
		}
	}
	find := func(_ context.Context, name string) (string, error) {
		if name == "gone" {
			return "", errors.New("no such container")
		}
		return "in " + name, nil
	}
	host := func() string {
		if h := c.Hostname.Load(); h != nil {
			return *h
		}
		return ""
	}
	if c.LookUpHost(find); host() != "in crate" {
		t.Errorf("host %q", host())
	}
	if c.LookUpHost(nil); host() != "" {
		t.Errorf("nothing can find it: host %q", host())
	}
	c.LookUpHost(find)
	c.Set("gone")
	if c.LookUpHost(find); host() != "" {
		t.Errorf("of a container that is not there: host %q", host())
	}
	long := strings.Repeat("x", maxContainer)
	for name, want := range map[string]bool{"": false, "a.B-9_": true, "a b": false, "a/b": false, "\x00": false, "\xc3\xa4": false, long: true, long + "x": false} {
		if got := ValidContainer([]byte(name)); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}
