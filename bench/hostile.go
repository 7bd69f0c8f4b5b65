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

	"github.com/gopcp/pmcd/agents/linuxhosts"
	"github.com/gopcp/pmcd/bench/attack"
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
	attack      func(m *attack.Metrics) attack.Attack // nil: honest clients, which are compared with C pmcd's
	setup       setup                                 // of TLS and SASL
	full        bool                                  // the attackers never have the lowest priority
}

var attackScenarios = []attackScenario{
	{"insts", "400 clients fetch 16,377 times pmcd.client.start_date, without instances, 0.5 MB/s", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 400, Rate: 0.5e6, Script: m.ExcludedInsts()}
	}, setup{}, false},
	{"profiles", "200 clients with 64 contexts, each with a profile of 64 KiB", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 200, Rate: 120e6, Script: m.Profiles(64)}
	}, setup{}, false},
	{"stream", "200 clients send small profiles without an end", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 200, Script: m.Stream()}
	}, setup{}, false},
	{"unread", "60 clients do not read replies of 15 MiB", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 60, Rate: 4e6, Script: m.Unread(maxReply, 3)}
	}, setup{}, false},
	{"repeated", "one client repeats kernel.percpu.interrupts of 128 CPUs, 13 KB/s", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 1, Rate: 13e3, Script: m.RepeatedPMID()}
	}, setup{}, false},
	{"heavy", "200 clients fetch all kernel metrics", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 200, Script: m.AllMetrics()}
	}, setup{}, false},
	{"names", "200 clients look up 1,600 names a request", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 200, Script: m.Names()}
	}, setup{}, false},
	{"crowd", "2,000 clients fetch a metric of pmcd's own", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 2000, Script: m.Small()}
	}, setup{}, false},
	{"newcomer", "1,000 clients fetch a metric of pmcd's own, and one connects again and again", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 1001, Retry: time.Millisecond, Script: m.Connecting(1001, 1)}
	}, setup{}, true},
	{"newcomers", "1,000 clients fetch a metric of pmcd's own, and 60 connect again and again", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 1060, Retry: time.Millisecond, Script: m.Connecting(1060, 60)}
	}, setup{}, true},
	{"contexts", "4 clients fetch in alternating contexts with large profiles, 0.1 MB/s", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 4, Rate: 0.1e6, Script: m.Alternating()}
	}, setup{}, false},
	{"many", "10,000 clients do a little of each", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 10_000, Rate: 0.2e6, Script: m.Mixed(1 << 20)}
	}, setup{}, false},
	{"dribble", "10,000 clients send requests of 64 KiB in pieces of 16 bytes, 0.2 MB/s", func(m *attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 10_000, Rate: 0.2e6, Script: m.Dribble(16)}
	}, setup{}, false},
	{"handshakes", "1,000 connections that begin TLS handshakes with RSA-2048, half of which never end", func(*attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 1000, Connects: 2000, Retry: time.Millisecond, Script: attack.Handshakes()}
	}, setup{tls: rsaKey}, false},
	{"logins", "400 connections with failing logins (SASL PLAIN), half of which never end", func(*attack.Metrics) attack.Attack {
		return attack.Attack{Conns: 400, Retry: time.Millisecond, Script: attack.Logins()}
	}, setup{logins: true}, false},
	{"honest", "64 clients in a closed loop, none is hostile", nil, setup{}, false},
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

// runHostile runs the attacks and prints their tables.
func (o *options) runHostile(out io.Writer, stop <-chan os.Signal) error {
	picked, err := o.hostile.pick()
	if err != nil {
		return err
	}
	g := &attackBench{options: o, stop: stop, tree: filepath.Join(o.base, "host")}
	if err := writeTree(g.tree, composed(128)); err != nil {
		return err
	}
	if err := g.otherHost(); err != nil {
		fmt.Fprintf(o.progress, "no client with an address of another host: %v\n", err)
	}
	defer g.noOtherHost()
	var attacks []attackResult
	var honest []result
	for _, h := range picked {
		if h.attack == nil {
			honest, err = o.honestClients(stop)
		} else {
			for i := range sides {
				if i == theirs && !o.hostile.both {
					continue
				}
				r := attackResult{Attack: h.name, About: h.about, Side: sideNames[i]}
				if err = g.measure(h, i, &r); errors.Is(err, errInterrupted) {
					break
				}
				if err != nil {
					r.Error, err = err.Error(), nil
				}
				fmt.Fprintf(o.progress, "%s, %s: %s\n", h.name, sideNames[i], strings.Join(r.row(), ", "))
				attacks = append(attacks, r)
			}
		}
		if err != nil {
			break
		}
	}
	return errors.Join(err, o.reportHostile(out, attacks, honest))
}

// honestClients compares 64 clients of both daemons.
func (o *options) honestClients(stop <-chan os.Signal) ([]result, error) {
	long := *o
	long.rounds, long.time = 5, max(o.time, 2*time.Second)
	var honest []scenario
	for _, s := range scenarios {
		if s.name == "fetch-one-64" {
			s.shows = append(many(1.2, 1.5), measure{key: "p50", unit: "µs"})
			honest = append(honest, s)
		}
	}
	return long.compare(honest, stop)
}

// writeTree writes files below a directory.
func writeTree(root string, files linuxhosts.Files) error {
	for name, text := range files {
		path := filepath.Join(root, name)
		dir := filepath.Dir(path)
		if strings.HasSuffix(name, "/") {
			dir = path
		}
		err := os.MkdirAll(dir, 0o755)
		switch to, isLink := strings.CutPrefix(text, "-> "); {
		case err != nil, dir == path:
		case isLink:
			err = os.Symlink(to, path)
		default:
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
