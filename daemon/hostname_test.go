package daemon

import (
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
	r := newRig(t, func(c *Config) {
		c.gethostname = func() (string, error) {
			if s := *name.Load(); s != "" {
				return s, nil
			}
			return "", errors.New("no name")
		}
	}, nil)
	r.settled()
	c := r.dial()
	c.send(&pdu.Profile{})
	fetch := func(what string, want pdu.Errno) {
		t.Helper()
		if _, got := c.fetch(id(240, 1)); got != want {
			t.Errorf("%s: state changes %d, want %d", what, got, want)
		}
	}
	due := func() { r.Daemon.hostname.next.Store(time.Now().UnixNano()) }

	fetch("as at first", 0)
	rename("two")
	fetch("soon after the change", 0)
	due()
	fetch("later", pdu.StateHostname)
	due()
	fetch("once is enough", 0)
	rename("")
	due()
	fetch("no name", 0)
	rename("two")
	due()
	fetch("the same name again", 0)
	rename("three")
	r.reloaded()
	fetch("after a reload", pdu.StateHostname)
	if !r.logged("hostname changed from one to two") || !r.logged("hostname changed from two to three") {
		t.Error("it is not in the log")
	}
	m := c.do(&pdu.LabelReq{Ident: noIdent, Kind: pdu.LabelContext}).(*pdu.Labels)
	if got := string(m.Sets[0].JSON); !strings.Contains(got, `"hostname":"three"`) {
		t.Errorf("labels: %s", got)
	}
	if got := (host{r.Daemon}).Hostname(0); got != "three" {
		t.Errorf("pmcd.hostname is %q", got)
	}
}
