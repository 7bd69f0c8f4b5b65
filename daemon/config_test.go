package daemon

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// openNothing is an OpenFunc for tests without agents.
func openNothing(context.Context, *pmcdconf.Agent, wire.Options) (*transport.Conn, error) {
	return nil, errors.New("no agent")
}

// minimalConfig returns a Config with the required fields only.
func minimalConfig(t *testing.T) Config {
	dir := t.TempDir()
	conf, pmns := filepath.Join(dir, "pmcd.conf"), filepath.Join(dir, "pmns")
	for path, text := range map[string]string{conf: "pmcd 2 dso pmcd_init /none\n", pmns: testNames} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return Config{Files: Files{Conf: conf, Namespace: Namespace{Path: pmns}}, Listeners: new(Listeners), Agents: Agents{Open: openNothing}}
}

// New rejects a Config that cannot be used, and says all that is wrong.
func TestConfigIsRejected(t *testing.T) {
	embedded := &Embedded{Conf: new(pmcdconf.Config), Names: new(pmnsload.Tree)}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string // lines; "" is no error
	}{
		{"nothing but what is required", func(*Config) {}, ""},
		{"nothing", func(c *Config) { *c = Config{} }, "Files.Conf is not set\nFiles.Namespace.Path is not set\nListeners is not set\nAgents.Open is not set"},
		{"no file and no Embedded", func(c *Config) { c.Files.Conf = "" }, "Files.Conf is not set"},
		{"an Embedded without names", func(c *Config) { c.Files.Embedded = &Embedded{Conf: embedded.Conf} }, "Files.Embedded.Names is not set"},
		{"an Embedded without a configuration", func(c *Config) { c.Files.Embedded = &Embedded{Names: embedded.Names} }, "Files.Embedded.Conf is not set"},
		{"negative limits", func(c *Config) { c.Limits.PDU, c.Limits.Contexts, c.Limits.Metrics = -1, -1, -1 },
			"Limits.PDU is negative\nLimits.Contexts is negative\nLimits.Metrics is negative"},
		{"negative timeouts", func(c *Config) { c.Agents.RequestTimeout, c.Agents.HandshakeTimeout = -1, -1 },
			"Agents.RequestTimeout is negative\nAgents.HandshakeTimeout is negative"},
		{"a negative grace period", func(c *Config) { c.Agents.LateGrace = -1 }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := minimalConfig(t)
			tt.change(&cfg)
			got := ""
			if _, err := New(t.Context(), cfg); err != nil {
				got = err.Error()
			}
			want := tt.want
			if want != "" {
				want = "daemon.Config: " + want
			}
			if got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// Zero values mean what the comments of Config say.
func TestConfigDefaults(t *testing.T) {
	cfg := minimalConfig(t)
	cfg.setDefaults()
	for _, tt := range []struct {
		name      string
		got, want any
	}{
		{"MaxPDU", cfg.Limits.PDU, 64 << 10},
		{"MaxContexts", cfg.Limits.Contexts, 64},
		{"MaxMetrics", cfg.Limits.Metrics, 32 << 10},
		{"RequestTimeout", cfg.Agents.RequestTimeout, time.Duration(0)},
		{"HandshakeTimeout", cfg.Agents.HandshakeTimeout, 3 * time.Second},
	} {
		if tt.got != tt.want {
			t.Errorf("%s is %v, want %v", tt.name, tt.got, tt.want)
		}
	}

	set := cfg
	set.Limits.PDU, set.Limits.Contexts, set.Limits.Metrics, set.Agents.HandshakeTimeout = 1, 2, 3, 4
	set.setDefaults()
	if set.Limits.PDU != 1 || set.Limits.Contexts != 2 || set.Limits.Metrics != 3 || set.Agents.HandshakeTimeout != 4 {
		t.Errorf("values that were set have changed: %+v", set)
	}
}

// A Daemon with the required fields only serves clients.
func TestConfigWithDefaultsServes(t *testing.T) {
	r := newHarness(t, func(c *Config) {
		*c = Config{Files: Files{Conf: c.Files.Conf, Namespace: c.Files.Namespace}, Listeners: c.Listeners, Agents: Agents{Open: c.Agents.Open}}
	}, nil)
	r.awaitStarts()
	c := r.dialValues()
	if got, want := c.pmid("t.one"), "240.0.1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if labels := c.contextLabels(); !strings.Contains(labels, `"hostname":`) {
		t.Errorf("without LabelDir the context labels are %s", labels)
	}
}
