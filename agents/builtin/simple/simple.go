// Package simple is the demonstration agent of PCP's guide for programmers
// (pmdasimple(1), "Performance Metrics Programmer's Guide", chapter 2). It shows
// what most agents need:
//
//   - simple.numfetch counts the fetches; it can be stored
//   - simple.color has three instances; each can be stored by itself
//   - simple.time is the agent's own CPU time, which is read once in a fetch
//   - simple.now has instances that a file names, see below
//   - labels of the domain, of instance domains and of instances
//
// # simple.conf
//
// The file $PCP_PMDAS_DIR/simple/simple.conf says which instances simple.now
// has. Its first line is a list of some of sec, min and hour, separated by commas
// only. The agent reads the file again in the next request after a change. An
// instance keeps its id as long as the agent runs.
//
// C differs: it does not read a file that was removed and comes back with the same
// modification time; and after a store of a smaller number into simple.numfetch it
// does not update simple.time until simple.numfetch has its old value again.
package simple

import (
	"context"
	_ "embed"
	"log/slog"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// Domain is the number of simple in PCP's list (stdpmid).
const Domain = 253

//go:embed help
var help string

// colors are the instances of simple.color: indexes into agent.color.
var colors = pmda.List{{ID: 0, Name: "red"}, {ID: 1, Name: "green"}, {ID: 2, Name: "blue"}}

// An agent is the state that the functions of the metrics share. They are called
// one at a time.
type agent struct {
	numfetch uint32
	color    [3]int32 // 0 to 255
	userTime float64  // own CPU time in seconds
	sysTime  float64
	conf     *conf
	now      time.Time // the time of the fetch, for all instances
}

// New returns the agent. The entry points SimpleInit (of the plugin) and simple_init
// (in pmcd.conf) call it.
func New(domain int) (agents.Agent, error) {
	a := &agent{color: [3]int32{0, 100, 200}, conf: newConf(domain, slog.Default())}
	color := &pmda.InDom{
		Serial: 0,
		Insts:  colors,
		Labels: pmda.Labels{"indom_name": "color", "model": "RGB"},
	}
	now := &pmda.InDom{
		Serial: 1,
		Insts:  a.conf.instances,
		Labels: pmda.Labels{"indom_name": "time", "unitsystem": "SI"},
		InstLabels: func(_ context.Context, _ *pmda.Request, inst pdu.Inst) (pmda.Labels, error) {
			return pmda.Labels{"units": inst.Name}, nil
		},
	}
	cpu := &pmda.Source{Read: a.readTimes}
	sec := pdu.NewUnits(0, 1, 0, 0, pdu.TimeSec, 0)
	return pmda.New(pmda.Config{
		Name:   "simple",
		Domain: domain,
		Help:   help,
		Labels: pmda.Labels{"role": "testing"},
		Metrics: []pmda.Metric{{
			Cluster: 0, Item: 0, Name: "simple.numfetch",
			Type: pdu.MetricU32, Sem: pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				v.SetUint(uint64(a.numfetch))
				return nil
			},
		}, {
			Cluster: 0, Item: 1, Name: "simple.color", InDom: color,
			Type: pdu.Metric32, Sem: pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				c := &a.color[v.Index()]
				*c = (*c + 1) % 256
				v.SetInt(int64(*c))
				return nil
			},
		}, {
			Cluster: 1, Item: 2, Name: "simple.time.user", Source: cpu,
			Type: pdu.MetricDouble, Sem: pdu.SemCounter, Units: sec,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				v.SetFloat(a.userTime)
				return nil
			},
		}, {
			Cluster: 1, Item: 3, Name: "simple.time.sys", Source: cpu,
			Type: pdu.MetricDouble, Sem: pdu.SemCounter, Units: sec,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				v.SetFloat(a.sysTime)
				return nil
			},
		}, {
			Cluster: 2, Item: 4, Name: "simple.now", InDom: now,
			Type: pdu.MetricU32, Sem: pdu.SemInstant,
			Fetch: func(_ context.Context, v *pmda.Value) error {
				v.SetInt(int64(v.Data().(field)(a.now)))
				return nil
			},
		}},
		// Each request reads a changed file, not only a fetch of simple.now: the ids
		// of instances depend on all contents that the file has had.
		Check: func(context.Context, *pmda.Request) error {
			a.conf.readIfChanged()
			return nil
		},
		BeforeFetch: func(context.Context, *pmda.Request, []pdu.PMID) error {
			a.numfetch++
			a.now = time.Now()
			return nil
		},
		Store: a.store,
	})
}

// readTimes reads the CPU time of this process: the agent's own, or pmcd's if the
// agent is in pmcd's process.
func (a *agent) readTimes(context.Context, *pmda.Request) error {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return err
	}
	a.userTime = time.Duration(u.Utime.Nano()).Seconds()
	a.sysTime = time.Duration(u.Stime.Nano()).Seconds()
	return nil
}
