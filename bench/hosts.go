package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// Metrics that group hosts fetches.
var (
	processFew  = []string{"proc.psinfo.pid", "proc.psinfo.cmd", "proc.psinfo.utime", "proc.psinfo.stime", "proc.psinfo.rss", "proc.psinfo.psargs", "proc.memory.rss", "proc.id.uid"}
	processMany = []string{"proc.psinfo.*", "proc.memory.*", "proc.io.*", "proc.id.*"}
)

// hostScenarios are of hosts with many processes, control groups, CPUs, sockets, interfaces or
// mounts. Each fetches all instances, or those of one process, as root over the Unix domain socket.
func hostScenarios() (all []scenario) {
	add := func(name, about string, on population, cpu, time, memory float64, run func(r *run) error) {
		all = append(all, scenario{name: name, about: about, setup: setup{agents: hostAgents, on: on, composed: on.kind == "cpus"}, host: true, run: run, shows: []measure{
			{key: "cpu+agents", unit: "ms", goal: cpu}, {key: "time", unit: "ms", goal: time},
			{key: "peak", unit: "MB"}, {key: "Pss_Anon", unit: "MB", goal: memory}, {key: "values"}}})
	}
	for _, n := range []int{100, 1000, 3000, 10_000} {
		on, of := population{"processes", n}, fmt.Sprintf(" of %d processes", n)
		add(fmt.Sprint("procs-few-", n), "8 metrics"+of, on, 0.8, 0.75, 0, fetchHost(false, processFew...))
		add(fmt.Sprint("procs-all-", n), "111 metrics"+of, on, 0.9, 0.8, 0, fetchHost(false, processMany...))
		add(fmt.Sprint("procs-one-", n), "8 metrics of one"+of, on, 0.1, 0.1, 0, fetchHost(true, processFew...))
		add(fmt.Sprint("procs-count-", n), "the number"+of, on, 0, 0, 0, fetchHost(false, "proc.nprocs"))
	}
	for _, n := range []int{20, 1000} {
		add(fmt.Sprint("groups-", n), fmt.Sprintf("cgroup.* of %d groups", n), population{"groups", n}, 0, 0, 0, fetchHost(false, "cgroup.*"))
	}
	add("groups1-1000", "cgroup.* of 1000 groups in each of five hierarchies of version 1", population{"groups1", 1000}, 0, 0, 0, fetchHost(false, "cgroup.*"))
	add("cpus-256", "kernel.percpu.* of 256 CPUs", population{"cpus", 256}, 0.4, 0.4, 0, fetchHost(false, "kernel.percpu.*"))
	add("sockets-2000", "network.* beside 2,000 TCP connections", population{"sockets", 2000}, 0, 0, 0, fetchHost(false, "network.*"))
	add("interfaces-1000", "network.interface.* of 1,000 interfaces", population{"interfaces", 1000}, 0, 0, 0, fetchHost(false, "network.interface.*"))
	add("mounts-5000", "filesys.* beside 5,000 mounts", population{"mounts", 5000}, 0.4, 0, 0, fetchHost(false, "filesys.*"))
	many := fetchHost(false, processMany...)
	add("procs-later", "a minute after 111 metrics of 3000 processes", population{"processes", 3000}, 0, 0, 1, func(r *run) error {
		if err := many(r); err != nil {
			return err
		}
		time.Sleep(65 * time.Second)
		r.got["Pss_Anon"] = float64(treeOf(r.pid()).memory("Pss_Anon")) / 1e6
		return nil
	})
	all[len(all)-1].rounds, all[len(all)-1].fresh = 1, true
	return all
}

// fetchHost measures fetches of all metrics below names: of all instances, or of the process of
// the bench alone.
func fetchHost(one bool, names ...string) func(r *run) error {
	return func(r *run) error {
		ids, err := r.ids(names...)
		if err != nil {
			return err
		}
		c, err := dial("unix", filepath.Join(r.dir, "sock"), nil, profile)
		if err != nil {
			return err
		}
		defer c.Close()
		if one {
			const indomProc = 9
			only := pdu.InDomProfile{InDom: pdu.NewInDom(domainProc, indomProc), Exclude: true, Insts: []int32{int32(os.Getpid())}}
			if _, err := c.Write(encode(&pdu.Profile{Exclude: true, InDoms: []pdu.InDomProfile{only}})); err != nil {
				return err
			}
		}
		c.SetDeadline(time.Time{})
		sets, err := c.fetch(ids...) // the first one makes tables
		if err != nil {
			return err
		}
		values, err := count(sets, false)
		if err != nil {
			return err
		}
		below := treeOf(r.pid())
		for _, pid := range below.pids() {
			resetPeak(pid)
		}
		req := encode(&pdu.Fetch{PMIDs: ids})
		before := below.usage()
		began, n := time.Now(), 0.
		for ; n < 2 || time.Since(began) < r.time; n++ {
			if _, err = c.call(req); err != nil {
				break
			}
		}
		took := time.Since(began)
		_, all, _, _ := below.usage().since(before)
		r.got["cpu+agents"], r.got["time"] = all.Seconds()*1e3/n, took.Seconds()*1e3/n
		r.got["peak"] = float64(below.memory("VmHWM")-below.memory("RssFile")) / 1e6
		r.got["Pss_Anon"] = float64(below.memory("Pss_Anon")) / 1e6
		r.got["values"] = float64(values)
		return err
	}
}
