package main

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/daemon"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// Only what clients do not take yet is added to what is in use, and only bytes count.
func TestMemoryLimit(t *testing.T) {
	limits := []daemon.LimitStatus{
		{Name: "clients", Used: 7, Limit: 1000},
		{Name: "profiles", Unit: "bytes", Used: 10 << 20, Limit: 30 << 20},
		{Name: "unread replies", Unit: "bytes", Limit: 64 << 20},
	}
	for group, spare := range map[int64]int64{0: spareMemory, 1 << 40: spareMemory, 64 << 20: spareMemory / 8} {
		if got, want := memoryLimit(50<<20, limits, group), spare+(50+20+64)<<20; got != want {
			t.Errorf("limit %d with %d for the control group, want %d", got, group, want)
		}
	}
}

// What clients may hold, what the Go runtime may use besides, and pmcd itself are less than the 256 MB of
// resident memory that "bench -hostile" allows.
func TestMemoryOfAllLimits(t *testing.T) {
	const itself, most = 20e6, 240 << 20
	conf, err := pmcdconf.Parse("pmcd.conf", strings.NewReader("pmcd 2 dso pmcd_init builtin\n"), pmcdconf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	listeners, err := daemon.Listen(nil, nil, filepath.Join(t.TempDir(), "sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer listeners.Close()
	d, err := daemon.New(t.Context(), daemon.Config{
		Files:     daemon.Files{Embedded: &daemon.Embedded{Conf: conf, Names: new(pmnsload.Tree)}},
		Listeners: listeners,
		Agents: daemon.Agents{Open: func(context.Context, *pmcdconf.Agent, wire.Options) (*transport.Conn, error) {
			return nil, context.Canceled
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	kinds, sum := 0, int64(spareMemory+itself)
	for _, l := range d.Status().Limits {
		if l.Unit == "bytes" {
			kinds++
			sum += l.Limit
		}
	}
	if kinds != 3 || sum > most {
		t.Errorf("%d bytes with the limits of %d kinds of memory, want at most %d with 3", sum, kinds, most)
	}
}
