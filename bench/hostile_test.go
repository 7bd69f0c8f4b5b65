package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestWatch tests that a late reply counts for the fetches that were due meanwhile.
func TestWatch(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name  string
		every time.Duration
		add   time.Duration
		err   error
		want  []time.Duration
	}{
		{"in time", 10 * ms, 9 * ms, nil, []time.Duration{9 * ms}},
		{"later than the next three fetches", 10 * ms, 35 * ms, nil, []time.Duration{35 * ms, 25 * ms, 15 * ms, 5 * ms}},
		{"failed", 10 * ms, 5 * ms, errors.New("x"), []time.Duration{5 * ms}},
	} {
		var w watch
		w.add(tt.add, tt.every, tt.err)
		if !slices.Equal(w.took, tt.want) || w.max != tt.add || (w.Failed == 1) != (tt.err != nil) || w.Late != 0 {
			t.Errorf("%s: %v, want %v; %+v", tt.name, w.took, tt.want, w)
		}
	}
	var w watch
	w.add(2*lateAfter, time.Hour, nil)
	if w.Late != 1 {
		t.Error("a late reply is not counted")
	}
}

// TestLimits tests which results miss a limit.
func TestLimits(t *testing.T) {
	ok := func() *attackResult {
		return &attackResult{
			Attacked:  map[string]watched{"unix a": {Fetches: 9, P99: 3}, "tcp a": {Fetches: 9, P99: 4}},
			Alone:     map[string]watched{"unix a": {P99: 2}, "tcp a": {P99: 2}},
			Newcomers: []watched{{Fetches: 9, P99: 150}, {Fetches: 9, P99: 199}},
			Peak:      200, Watchdog: 3, HasWatchdog: true, End: 1,
		}
	}
	set := func(r *attackResult, name string, w watched) { r.Attacked[name] = w }
	for i, tt := range []struct {
		missed string
		change func(r *attackResult)
	}{
		{"", func(*attackResult) {}},
		{"", func(r *attackResult) { set(r, "unix a", watched{Fetches: 9, P99: 99}) }},
		{"p99", func(r *attackResult) { set(r, "unix a", watched{Fetches: 9, P99: 101}) }},
		{"newcomer", func(r *attackResult) { r.Newcomers[1].P99 = 201 }},
		{"newcomer", func(r *attackResult) { r.Newcomers[0].Failed = 1 }},
		{"newcomer", func(r *attackResult) { r.Newcomers = nil }},
		{"p99", func(r *attackResult) { set(r, "unix a", watched{}) }},
		{"p99", func(r *attackResult) { clear(r.Attacked) }},
		{"late", func(r *attackResult) { set(r, "unix a", watched{Fetches: 9, P99: 3, Late: 1}) }},
		{"failed", func(r *attackResult) { set(r, "unix a", watched{Fetches: 9, P99: 3, Failed: 1}) }},
		{"VmHWM", func(r *attackResult) { r.Peak = 257 }},
		{"watchdog", func(r *attackResult) { r.Watchdog = 4.1 }},
		{"", func(r *attackResult) { r.Watchdog, r.HasWatchdog = 4.1, false }},
		{"SIGTERM", func(r *attackResult) { r.End = 3.1 }},
	} {
		t.Run(fmt.Sprint(i, " ", tt.missed), func(t *testing.T) {
			r := ok()
			tt.change(r)
			row := r.row()
			want := "kept"
			if tt.missed != "" {
				want = "missed: " + tt.missed
			}
			if got := row[len(row)-1]; got != want || r.Passed != (tt.missed == "") || len(row) != len(hostileColumns) {
				t.Errorf("%q, want %q: %v", got, want, row)
			}
		})
	}
}

// TestPeerHostile runs an attack with a rate and one that connects, and all of them with
// PMCD_LONG=1. Each has a row.
func TestPeerHostile(t *testing.T) {
	o := peers(t)
	o.hostile = hostileOptions{names: "contexts,handshakes"}
	o.time = 300 * time.Millisecond
	if os.Getenv("PMCD_LONG") == "1" {
		o.hostile.names = "all"
	}
	picked, err := o.hostile.pick()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := o.runHostile(&out, nil); err != nil {
		t.Fatal(err)
	}
	for _, h := range picked {
		row := regexp.MustCompile(`(?m)^\| ` + h.name + `\b.*$`).FindString(out.String())
		if cells := strings.Split(row, "|"); len(cells) != len(hostileColumns)+4 {
			t.Errorf("%s: %d cells: %q", h.name, len(cells), row)
		}
	}
}
