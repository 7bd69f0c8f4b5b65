package main

import (
	"os"
	"time"
)

// cpuPercent is CPU time in percent of one CPU.
type cpuPercent struct {
	Daemon float64 // with its helpers
	Agents float64 // in other processes
	Others float64 // processes that are not of this bench
}

// A cpuUse measures the use of CPUs from its start.
type cpuUse struct {
	pid   int // of the daemon
	began time.Time
	times cpuTimes
}

type cpuTimes struct {
	daemon, below time.Duration // the daemon; it and its agents
	bench, all    time.Duration // this process and all below; all processes of the host
}

func newCPUUse(pid int) *cpuUse { return &cpuUse{pid, time.Now(), cpuTimesOf(pid)} }

func cpuTimesOf(pid int) (t cpuTimes) {
	t.daemon, t.below = treeOf(pid).cpu()
	_, t.bench = treeOf(os.Getpid()).cpu()
	t.all = busyTime()
	return t
}

// percent returns the use since newCPUUse.
func (u *cpuUse) percent() cpuPercent {
	now, took := cpuTimesOf(u.pid), time.Since(u.began)
	of := func(d time.Duration) float64 { return max(0, 100*d.Seconds()/took.Seconds()) }
	daemon := now.daemon - u.times.daemon
	return cpuPercent{
		Daemon: of(daemon),
		Agents: of(now.below - u.times.below - daemon),
		Others: of(now.all - u.times.all - (now.bench - u.times.bench)),
	}
}
