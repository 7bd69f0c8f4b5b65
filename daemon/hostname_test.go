package daemon

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

// Clients are told when the host gets another name: by their next fetch when
// some time has passed, and by a reload.
func TestHostnameChange(t *testing.T) {
	var name atomic.Pointer[string]
	rename := func(s string) { name.Store(&s) }
	rename("one")
	r := newHarness(t, func(c *Config) {
		c.hooks.hostnameEvery = time.Nanosecond
		c.hooks.gethostname = func() (string, error) {
			if s := *name.Load(); s != "" {
				return s, nil
			}
			return "", errors.New("no name")
		}
	}, nil)
	r.awaitStarts()
	c := r.dialValues()
	fetch := func(what string, want pdu.Errno) {
		t.Helper()
		if _, got := c.fetch(id(240, 1)); got != want {
			t.Errorf("%s: state changes %d, want %d", what, got, want)
		}
	}

	fetch("as at first", 0)
	rename("two")
	fetch("later", pdu.StateHostname)
	fetch("once is enough", 0)
	rename("")
	fetch("no name", 0)
	rename("two")
	fetch("the same name again", 0)
	rename("three")
	r.reloaded()
	fetch("after a reload", pdu.StateHostname)
	r.awaitLogged(t, "hostname changed from one to two")
	r.awaitLogged(t, "hostname changed from two to three")
	if got := c.contextLabels(); !strings.Contains(got, `"hostname":"three"`) {
		t.Errorf("labels: %s", got)
	}
	if got := (host{r.Daemon}).Hostname(0); got != "three" {
		t.Errorf("pmcd.hostname is %q", got)
	}
}

// A client that has chosen a container observes the host that it is in there, if
// that can be told; the name is asked for when it is fetched, and then each time.
func TestContainerHost(t *testing.T) {
	var asked atomic.Int32
	r := newHarness(t, func(c *Config) {
		c.Host.Name = "outside"
		c.Host.ContainerName = func(_ context.Context, container string) (string, error) {
			asked.Add(1)
			if container == "absent" {
				return "", errors.New("no such container")
			}
			return "in " + container, nil
		}
	}, nil)
	r.awaitStarts()
	hostname := func(c *valueClient) string {
		t.Helper()
		name, _, _ := strings.Cut(c.values(id(2, 21), id(2, 3)), " 2.0.3=")
		return strings.TrimPrefix(name, "2.0.21=")
	}
	box, absent, none := r.dialContainer("box"), r.dialContainer("absent"), r.dialValues()
	box.fetch(id(2, 3))
	if n := asked.Load(); n != 0 {
		t.Errorf("asked %d times, for nothing", n)
	}
	for range 2 {
		for c, want := range map[*valueClient]string{box: "in box", absent: "outside", none: "outside"} {
			if got := hostname(c); got != want {
				t.Errorf("pmcd.hostname is %q, want %q", got, want)
			}
		}
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("asked %d times, want 4", n)
	}

	// It leaves the container, and enters another one.
	for _, name := range []string{"", "crate"} {
		if err := box.Store(t.Context(), pmapi.NewValueSet(pdu.NewPMID(2, 6, 2), 0, pmapi.ValueOf(name))); err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"": "outside", "crate": "in crate"}[name]
		if got := hostname(box); got != want {
			t.Errorf("pmcd.hostname is %q, want %q", got, want)
		}
	}
}
