package daemon

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/daemon/internal/agentsettest"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
	"github.com/gopcp/pmcd/pmnsload"
)

// What is embedded is served whatever files say, and stays at a reload, which
// starts agents that have died.
func TestEmbedded(t *testing.T) {
	conf, err := pmcdconf.Parse("embedded", strings.NewReader("pmcd 2 dso pmcd_init /none\nt 240 pipe binary t\n"), pmcdconf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	names, err := pmnsload.Parse("embedded", strings.NewReader("root { e }\ne { one 240:0:1 }\n"), pmnsload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	die := make(chan struct{}, 1)
	r := newHarness(t, func(c *Config) {
		c.Files.Embedded = &Embedded{Conf: conf, Names: names, Labels: []hostlabels.Label{{Name: "site", Value: json.RawMessage("1"), Optional: true}}}
	}, map[int]func(wire.Conn){240: func(c wire.Conn) {
		go func() { // ends with the test
			if _, ok := <-die; ok {
				c.Close()
			}
		}()
		serveAgent(&agentsettest.Tester{Domain: 240})(c)
	}})
	t.Cleanup(func() { close(die) })
	r.awaitStarts()
	c := r.dialValues()
	check := func(when string) {
		t.Helper()
		for name, want := range map[string]string{"e.one": "240.0.1", "t.one": "PM_ERR_NAME"} {
			if got := c.pmid(name); got != want {
				t.Errorf("%s: %s: got %s, want %s", when, name, got, want)
			}
		}
		if got := c.values(id(240, 1), id(241, 1)); got != "240.0.1=240 241.0.1=PM_ERR_NOAGENT" {
			t.Errorf("%s: got %s", when, got)
		}
		if text := c.contextLabels(); !strings.Contains(text, `"site":1`) || strings.Contains(text, "file") || strings.Contains(text, "sha256") {
			t.Errorf("%s: labels %s", when, text)
		}
	}
	r.write("labels/a", `{"file":1}`)
	r.write("labels.conf", "machineid_hash = sha256\n")
	check("at the start")

	die <- struct{}{}
	testutil.Eventually(t, "the agent is gone", func() bool {
		return c.values(id(240, 1)) == "240.0.1=PM_ERR_NOAGENT"
	})
	r.write("pmcd.conf", "pmcd 2 dso pmcd_init /none\nu 241 pipe binary u\n")
	r.write("pmns", testNames)
	r.reloaded()
	check("after a reload")
	r.awaitLogged(t, "embedded configuration stays in use")
}
