package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gopcp/pmcd/bench/attack"
	"github.com/gopcp/pmcd/internal/linuxhosts"
)

// hostileOptions are the options of -hostile.
type hostileOptions struct {
	names string // of attacks
	both  bool
	full  bool // attackers do not have the lowest priority
}

// rampTimeout is how long attackers may take to connect.
const rampTimeout = 30 * time.Second

// maxReply is nearly the longest reply that pmcd sends.
const maxReply = 15 << 20

// An attackScenario is one attack.
type attackScenario struct {
	name, about string
	attack      attack.Attack
	script      func(m *attack.Metrics) func(int) attack.Script
	setup       setup // of TLS and SASL
	full        bool  // the attackers never have the lowest priority
}

var attackScenarios = []attackScenario{
	{name: "insts", about: "400 clients fetch 16,377 times pmcd.client.start_date, without instances, 0.5 MB/s",
		attack: attack.Attack{Conns: 400, Rate: 0.5e6}, script: (*attack.Metrics).ExcludedInsts},
	{name: "profiles", about: "200 clients with 64 contexts, each with a profile of 64 KiB",
		attack: attack.Attack{Conns: 200, Rate: 120e6},
		script: func(m *attack.Metrics) func(int) attack.Script { return m.Profiles(64) }},
	{name: "stream", about: "200 clients send small profiles without an end",
		attack: attack.Attack{Conns: 200}, script: (*attack.Metrics).Stream},
	{name: "unread", about: "60 clients do not read replies of 15 MiB",
		attack: attack.Attack{Conns: 60, Rate: 4e6},
		script: func(m *attack.Metrics) func(int) attack.Script { return m.Unread(maxReply, 3) }},
	{name: "unread-900", about: "900 clients do not read the reply of 16 MiB to a request of 46 KB",
		attack: attack.Attack{Conns: 900}, script: (*attack.Metrics).Repeats},
	{name: "unread-tls", about: "the same in TLS",
		attack: attack.Attack{Conns: 900}, setup: setup{tls: rsaKey},
		script: func(m *attack.Metrics) func(int) attack.Script { return attack.InTLS(m.Repeats()) }},
	{name: "read-repeats", about: "100 clients read such replies",
		attack: attack.Attack{Conns: 100}, script: (*attack.Metrics).ReadRepeats},
	{name: "large", about: "100 clients fetch a value of 10 MiB, half of which do not read it",
		attack: attack.Attack{Conns: 100}, setup: setup{delay: time.Nanosecond}, script: (*attack.Metrics).Distinct},
	{name: "profiles-waiting", about: "1,000 clients with profiles of 24 KiB wait for an agent",
		attack: attack.Attack{Conns: 1000},
		script: func(m *attack.Metrics) func(int) attack.Script { return m.Waiting(1000) }},
	{name: "unread-waiting", about: "900 clients do not read 16 MiB, and 1,000 with profiles wait for an agent",
		attack: attack.Attack{Conns: 1900},
		script: func(m *attack.Metrics) func(int) attack.Script {
			return attack.Both(m.Repeats(), 900, m.Waiting(1000))
		}},
	{name: "repeated", about: "one client repeats kernel.percpu.interrupts of 128 CPUs, 13 KB/s",
		attack: attack.Attack{Conns: 1, Rate: 13e3}, script: (*attack.Metrics).RepeatedPMID},
	{name: "heavy", about: "200 clients fetch all kernel metrics",
		attack: attack.Attack{Conns: 200}, script: (*attack.Metrics).AllMetrics},
	{name: "names", about: "200 clients look up 1,600 names a request",
		attack: attack.Attack{Conns: 200}, script: (*attack.Metrics).Names},
	{name: "crowd", about: "2,000 clients fetch a metric of pmcd's own",
		attack: attack.Attack{Conns: 2000}, script: (*attack.Metrics).Small},
	{name: "newcomer", about: "1,000 clients fetch a metric of pmcd's own, and one connects again and again",
		attack: attack.Attack{Conns: 1001, Retry: time.Millisecond}, full: true,
		script: func(m *attack.Metrics) func(int) attack.Script { return m.Connecting(1001, 1) }},
	{name: "newcomers", about: "1,000 clients fetch a metric of pmcd's own, and 60 connect again and again",
		attack: attack.Attack{Conns: 1060, Retry: time.Millisecond}, full: true,
		script: func(m *attack.Metrics) func(int) attack.Script { return m.Connecting(1060, 60) }},
	{name: "contexts", about: "4 clients fetch in alternating contexts with large profiles, 0.1 MB/s",
		attack: attack.Attack{Conns: 4, Rate: 0.1e6}, script: (*attack.Metrics).Alternating},
	{name: "many", about: "10,000 clients do a little of each",
		attack: attack.Attack{Conns: 10_000, Rate: 0.2e6},
		script: func(m *attack.Metrics) func(int) attack.Script { return m.Mixed(1 << 20) }},
	{name: "dribble", about: "10,000 clients send requests of 64 KiB in pieces of 16 bytes, 0.2 MB/s",
		attack: attack.Attack{Conns: 10_000, Rate: 0.2e6},
		script: func(m *attack.Metrics) func(int) attack.Script { return m.Dribble(16) }},
	{name: "handshakes", about: "1,000 connections that begin TLS handshakes with RSA-2048, half of which never end",
		attack: attack.Attack{Conns: 1000, Connects: 2000, Retry: time.Millisecond}, setup: setup{tls: rsaKey},
		script: func(*attack.Metrics) func(int) attack.Script { return attack.Handshakes() }},
	{name: "logins", about: "400 connections with failing logins (SASL PLAIN), half of which never end",
		attack: attack.Attack{Conns: 400, Retry: time.Millisecond}, setup: setup{logins: true},
		script: func(*attack.Metrics) func(int) attack.Script { return attack.Logins() }},
}

// attackNamed returns the index of the attack of a name, or -1.
func attackNamed(name string) int {
	return slices.IndexFunc(attackScenarios, func(h attackScenario) bool { return h.name == name })
}

// pick returns the attacks of -hostile.
func (h hostileOptions) pick() (picked []attackScenario, err error) {
	if h.names == "all" {
		return attackScenarios, nil
	}
	for name := range strings.SplitSeq(h.names, ",") {
		i := attackNamed(name)
		if i < 0 {
			return nil, fmt.Errorf("no attack %q (-list names them)", name)
		}
		picked = append(picked, attackScenarios[i])
	}
	return picked, nil
}

// runHostile runs the attacks, prints their table and writes the files that the options name.
func (o *options) runHostile(out io.Writer, stop <-chan os.Signal) error {
	picked, err := o.hostile.pick()
	if err != nil {
		return err
	}
	if err := writeTree(composedHost(o.base), composed(128)); err != nil {
		return err
	}
	b := &attackBench{options: o, stop: stop}
	if err := b.otherHost(); err != nil {
		fmt.Fprintf(o.progress, "no client with an address of another host: %v\n", err)
	}
	defer b.noOtherHost()
	var all []*attackResult
	for _, h := range picked {
		for i := range sides {
			if i == theirs && !o.hostile.both || err != nil {
				continue
			}
			r := &attackResult{Attack: h.name, About: h.about, Side: sideNames[i]}
			if e := b.measure(h, i, r); errors.Is(e, errInterrupted) {
				err = e
				continue
			} else if e != nil {
				r.Error = e.Error()
			}
			fmt.Fprintf(o.progress, "%s, %s: %s\n", h.name, sideNames[i], strings.Join(r.row(), ", "))
			all = append(all, r)
		}
	}
	text := hostileTable(all)
	_, e := out.Write(text)
	return errors.Join(err, e, o.write(text, struct {
		Host    string
		Attacks []*attackResult
	}{host(), all}))
}

// writeTree writes files below a directory, as linuxhosts says. It makes no links.
func writeTree(root string, files linuxhosts.Files) error {
	for name, text := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if strings.HasSuffix(name, "/") {
			err = os.MkdirAll(path, 0o755)
		} else if err == nil {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
