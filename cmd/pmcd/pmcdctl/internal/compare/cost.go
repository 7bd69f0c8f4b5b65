package compare

import (
	"fmt"
	"strconv"
)

// Limits of what a pmcd may need more than another: a part, and an amount. They are wide,
// because a busy host has such differences between any two samples.
const (
	memoryPart = 1.5
	memoryMore = 32 << 10 // KiB
	cpuPart    = 2
	cpuMore    = 0.05 // of one CPU
	timePart   = 3
	timeMore   = 1e6 // microseconds
)

// cost compares what the pmcds and their agents need, and how long they take.
func (c *comparer) cost() {
	ofB := index(c.b.Agents, func(a *Agent) int { return a.Domain })
	for i, s := range []*Snapshot{c.a, c.b} {
		cost := &Cost{}
		for _, agent := range s.Agents {
			cost.Answer += agent.Median
		}
		if s.Daemon != nil {
			cost.CPU, cost.Memory = s.Daemon.CPU, s.Daemon.Memory
		}
		c.r.Cost[i] = cost
	}
	for _, x := range c.a.Agents {
		y := ofB[x.Domain]
		if y != nil && float64(y.Median) > timePart*float64(x.Median)+timeMore {
			c.add("domain "+strconv.Itoa(x.Domain), "", isTime, millis(x.Median), millis(y.Median))
		}
	}
	if c.b.Changes > c.a.Changes {
		c.add("agents", "", isRestarts, strconv.Itoa(c.a.Changes), strconv.Itoa(c.b.Changes))
	}
	x, y := c.a.Daemon, c.b.Daemon
	if x == nil || y == nil {
		c.skip("cost", "", noProcess)
		return
	}
	if c.a.Changes+c.b.Changes > 0 { // what an agent has used that ended is not known
		c.skip("CPU", "", agentsEnded)
	} else if y.CPU > cpuPart*x.CPU+cpuMore {
		c.add("CPU", "", isCost, percent(x.CPU), percent(y.CPU))
	}
	if float64(y.Memory) > memoryPart*float64(x.Memory)+memoryMore {
		c.add("memory", "", isCost, mb(x.Memory), mb(y.Memory))
	}
}

func millis(us int64) string     { return fmt.Sprintf("%.3g ms", float64(us)/1e3) }
func percent(cpu float64) string { return fmt.Sprintf("%.2g%% of a CPU", 100*cpu) }
func mb(kb int64) string         { return fmt.Sprintf("%.3g MiB", float64(kb)/1024) }
