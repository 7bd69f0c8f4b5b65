package daemon

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Clients are told when the host gets another name: by their next fetch when
// some time has passed, and by a reload.
func TestHostnameChange(t *testing.T) {
	var name atomic.Pointer[string]
	rename := func(s string) { name.Store(&s) }
	rename("one")
	r := newHarness(t, func(c *Config) {
		c.hostnameEvery = time.Nanosecond
		c.gethostname = func() (string, error) {
			if s := *name.Load(); s != "" {
				return s, nil
			}
			return "", errors.New("no name")
		}
	}, nil)
	r.awaitStarts()
	c := r.dial()
	c.send(&pdu.Profile{})
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
	m := c.do(&pdu.LabelReq{Ident: noIdent, Kind: pdu.LabelContext}).(*pdu.Labels)
	if got := string(m.Sets[0].JSON); !strings.Contains(got, `"hostname":"three"`) {
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
		c.Hostname = "outside"
		c.ContainerHost = func(_ context.Context, container string) (string, error) {
			asked.Add(1)
			if container == "nobody" {
				return "", errors.New("no such container")
			}
			return "in " + container, nil
		}
	}, nil)
	r.awaitStarts()
	hostname := func(c *client) string {
		t.Helper()
		sets, _ := c.fetch(id(2, 21), id(2, 3))
		if len(sets) != 2 || len(sets[0].Values) != 1 {
			t.Fatalf("got %+v", sets)
		}
		return strings.TrimRight(string(sets[0].Values[0].Block), "\x00")
	}
	enter := func(name string) *client {
		c := r.dialTo("unix", r.unix, pdu.FeatureContainer)
		c.send(&pdu.Attr{Code: pdu.AttrContainer, Value: []byte(name)}, &pdu.Profile{})
		return c
	}
	box, nobody, none := enter("box"), enter("nobody"), r.dial()
	none.send(&pdu.Profile{})
	box.fetch(id(2, 3))
	if n := asked.Load(); n != 0 {
		t.Errorf("asked %d times, for nothing", n)
	}
	for range 2 {
		for c, want := range map[*client]string{box: "in box", nobody: "outside", none: "outside"} {
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
		store := &pdu.Result{Sets: []pdu.ValueSet{{PMID: pdu.NewPMID(2, 6, 2), Format: pdu.FormatBlock,
			Values: []pdu.Value{{Inst: 0, Type: pdu.MetricString, Block: []byte(name + "\x00")}}}}}
		if e := box.do(store).(*pdu.Error); e.Code != 0 {
			t.Fatal(e.Code)
		}
		want := map[string]string{"": "outside", "crate": "in crate"}[name]
		if got := hostname(box); got != want {
			t.Errorf("pmcd.hostname is %q, want %q", got, want)
		}
	}
}
