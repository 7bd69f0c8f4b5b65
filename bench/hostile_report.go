package main

import (
	"bytes"
	"fmt"
	"strings"
)

// Limits of an attack.
const (
	maxP99      = 100 // of a victim, in milliseconds
	maxNewcomer = 200 // p99 of what newcomers measure, in milliseconds
	maxPeak     = 256 // resident memory, in MB
	maxEnd      = 3   // seconds after SIGTERM
)

// An attackResult is what was measured of one attack on one daemon.
type attackResult struct {
	Attack, About, Side string
	Alone, Attacked     map[string]watched // by victim and metric: before the attack, and beside it
	Newcomers           []watched          // by what they measure
	Peak                float64            // the most resident memory (VmHWM), in MB
	CPU, AgentCPU       float64            // of the daemon with its helpers and of agents in other processes, in percent of one CPU
	Watchdog            float64            // the longest time between two notifications, in seconds
	HasWatchdog         bool
	End                 float64 // seconds from SIGTERM
	Ramp, Attackers     attackReport
	Error               string
	Passed              bool
}

// worst returns the victim and metric with the largest p99, and whether one has a p99
// above the limits.
func (r *attackResult) worst() (name string, missed bool) {
	for n, w := range r.Attacked {
		if name == "" || w.P99 > r.Attacked[name].P99 {
			name = n
		}
		missed = missed || w.Fetches == 0 || w.P99 > maxP99
	}
	return name, missed || name == ""
}

// slowest returns the largest p99 that newcomers have measured, and what it is. It reports
// whether one is above the limit or failed.
func (r *attackResult) slowest() (ms float64, what string, missed bool) {
	for i, w := range r.Newcomers {
		if what == "" || w.P99 > ms {
			ms, what = w.P99, newcomerNames[i]
		}
		missed = missed || w.Fetches == 0 || w.Failed > 0
	}
	return ms, what, missed || ms > maxNewcomer || what == ""
}

var hostileColumns = []string{"worst victim", "p50, ms", "p99, ms", "before, ms", "max, ms", "late", "failed", "newcomer p99, ms",
	"VmHWM, MB", "CPU, %", "of agents, %", "watchdog, s", "SIGTERM, s", "sent, MB/s", "replies/s", "limits"}

// row returns the cells of a result, in the order of hostileColumns. It sets Passed.
func (r *attackResult) row() []string {
	if r.Error != "" {
		return []string{"failed: " + r.Error}
	}
	var over []string
	mark := func(missed bool, what string) {
		if missed {
			over = append(over, what)
		}
	}
	name, slow := r.worst()
	w := r.Attacked[name]
	late, failed, longest := 0, 0, 0.
	for _, w := range r.Attacked {
		late, failed, longest = late+w.Late, failed+w.Failed, max(longest, w.Max)
	}
	mark(slow, "p99")
	mark(late > 0, "late")
	mark(failed > 0, "failed")
	ms, what, slowNewcomer := r.slowest()
	mark(slowNewcomer, "newcomer")
	mark(r.Peak > maxPeak, "VmHWM")
	mark(r.HasWatchdog && r.Watchdog > watchdog.Seconds(), "watchdog")
	mark(r.End > maxEnd, "SIGTERM")
	r.Passed = len(over) == 0
	verdict := "kept"
	if !r.Passed {
		verdict = "missed: " + strings.Join(over, ", ")
	}
	dog := "-"
	if r.HasWatchdog {
		dog = number(r.Watchdog)
	}
	rate := func(n int64) float64 { return float64(n) / max(r.Attackers.Seconds, 1e-3) }
	return []string{name, number(w.P50), number(w.P99), number(r.Alone[name].P99), number(longest), fmt.Sprint(late), fmt.Sprint(failed), number(ms) + " (" + what + ")",
		number(r.Peak), number(r.CPU), number(r.AgentCPU), dog, number(r.End), number(rate(r.Attackers.Sent) / 1e6), number(rate(r.Attackers.Replies)), verdict}
}

// hostileTable returns the results as a table in Markdown.
func hostileTable(attacks []*attackResult) []byte {
	w := new(bytes.Buffer)
	fmt.Fprintf(w, "%s.\n\nLimits: p99 at most %d ms; no late or failed answer; newcomers: p99 of the greeting, the first value and the first fetch of an idle client %d ms; "+
		"VmHWM %d MB; %v between two notifications of the watchdog; %d s from SIGTERM to the end.\n\n", host(), maxP99, maxNewcomer, maxPeak, watchdog, maxEnd)
	fmt.Fprintf(w, "| attack | on | %s |\n|---|---%s|\n", strings.Join(hostileColumns, " | "), strings.Repeat("|---", len(hostileColumns)))
	for _, r := range attacks {
		fmt.Fprintf(w, "| %s: %s | %s | %s |\n", r.Attack, r.About, r.Side, strings.Join(r.row(), " | "))
	}
	fmt.Fprintln(w)
	return w.Bytes()
}
