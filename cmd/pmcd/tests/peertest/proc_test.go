package peertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/proc"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmnsload"
)

// procAgents are PCP's pmdaproc and ours for the files below root, and the
// metrics of ours. Both know the client to be the user of the test.
func procAgents(t *testing.T, root string) (c, ours transport.Transport, metrics []pmnsload.Entry, pmdaproc int32) {
	t.Helper()
	peer.Require(t)
	t.Setenv("PROC_STATSPATH", root)
	p, err := child.Start(child.Spec{
		Argv:   []string{"/var/lib/pcp/pmdas/proc/pmdaproc", "-d", "3", "-U", "root", "-l", t.TempDir() + "/log"},
		Pipes:  true,
		Stderr: os.Stderr,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Hangs)
	t.Cleanup(func() { p.Stop(ctx); cancel() })
	client, err := wire.Dial(ctx, p.Pipes, wire.Options{PID: int32(os.Getpid())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	a, err := proc.Open(3, proc.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	ours = transport.Inline(a)
	t.Cleanup(func() { ours.Close() })
	for _, tr := range []transport.Transport{client, ours} {
		identify(tr, os.Getuid(), os.Getgid())
	}
	tree, err := pmnsload.Load("../../../../etc/root", pmnsload.Options{Preprocess: true})
	if err != nil {
		t.Fatal(err)
	}
	for e := range tree.All("") {
		if e.PMID.Domain() == 3 {
			metrics = append(metrics, e)
		}
	}
	if len(metrics) < 150 {
		t.Fatalf("%d metrics", len(metrics))
	}
	return client, ours, metrics, int32(p.PID())
}

// identify tells an agent the user of client 0.
func identify(tr transport.Transport, uid, gid int) {
	tr.Notify(transport.Notice{Attrs: []pdu.Attr{
		{Code: pdu.AttrUserID, Value: strconv.AppendInt(nil, int64(uid), 10)},
		{Code: pdu.AttrGroupID, Value: strconv.AppendInt(nil, int64(gid), 10)},
	}})
}

// Names, descriptors and labels are those of pmdaproc.
func TestProcDescribed(t *testing.T) {
	c, ours, metrics, _ := procAgents(t, "")
	installed, err := pmnsload.Load("/var/lib/pcp/pmns/root", pmnsload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	indoms := map[pdu.InDom]bool{}
	for _, m := range metrics {
		if newIn7(m) {
			if err := transporttest.Do(c, agents.Origin{}, &pdu.DescReq{PMID: m.PMID}, new(pdu.Desc)); err == nil {
				t.Errorf("%s is not new", m.Name)
			}
			continue
		}
		id, _ := installed.PMID(m.Name)
		if id.Domain() == 3 {
			same(t, m.Name, id, m.PMID)
		} else { // PCP's name space has 3:*:* there: the agents have the names
			req := &pdu.PMNSNames{Names: []string{m.Name}}
			same(t, m.Name, ask[pdu.PMNSIDs](t, c, req).PMIDs[0], m.PMID)
			same(t, m.Name, ask[pdu.PMNSIDs](t, ours, req).PMIDs[0], m.PMID)
		}
		req := &pdu.DescReq{PMID: m.PMID}
		d := ask[pdu.Desc](t, ours, req)
		same(t, m.Name, ask[pdu.Desc](t, c, req), d)
		indoms[d.InDom] = true
	}
	delete(indoms, pdu.NoInDom)
	for d := range indoms {
		for _, kind := range []pdu.LabelKind{pdu.LabelInDom, pdu.LabelInstances} {
			theirs, got := labelsByName(t, c, kind, d), labelsByName(t, ours, kind, d)
			for name, text := range theirs {
				if other, ok := got[name]; ok {
					same(t, fmt.Sprintf("labels of %q in %v", name, d), text, other)
				}
			}
		}
	}
}

func same[T comparable](t *testing.T, what string, c, ours T) {
	t.Helper()
	if c != ours {
		t.Errorf("%s\npmdaproc has %+v\nours         %+v", what, c, ours)
	}
}

// labelsByName returns labels by the names of instances; "" is the domain.
func labelsByName(t *testing.T, tr transport.Transport, kind pdu.LabelKind, d pdu.InDom) map[string]string {
	t.Helper()
	names := map[int32]string{}
	for _, i := range ask[pdu.Instance](t, tr, &pdu.InstanceReq{InDom: d, Inst: pdu.NoInst}).Insts {
		names[i.ID] = i.Name
	}
	m := map[string]string{}
	for _, s := range ask[pdu.Labels](t, tr, &pdu.LabelReq{Kind: kind, Ident: uint32(d)}).Sets {
		if len(s.Labels) > 0 {
			m[names[s.Inst]] = string(s.JSON)
		}
	}
	return m
}

// newIn7 reports whether pmdaproc of PCP 6.0 does not have a metric: acct.control.state,
// smaps.pss_dirty, and the clusters of fdinfo, delayacct and numa_maps.
// agents/builtin/proc tests their values.
func newIn7(m pmnsload.Entry) bool {
	cluster, item := m.PMID.Cluster(), m.PMID.Item()
	return m.Name == "acct.control.state" || (cluster == 33 || cluster == 34) && item == 20 || cluster >= 77 && cluster <= 81
}

// wrong are metrics that pmdaproc has wrong.
var wrong = map[string]string{
	"proc.psinfo.priority":             "the field behind that of the processor",
	"proc.psinfo.rt_priority":          "the field behind",
	"proc.psinfo.policy":               "the field behind",
	"proc.psinfo.policy_s":             "from policy",
	"proc.psinfo.delayacct_blkio_time": "the field behind",
	"proc.psinfo.guest_time":           "the field behind",
	"proc.psinfo.cguest_time":          "the field behind: an address",
	"proc.psinfo.ngid":                 "the number of a string",
	"proc.psinfo.start_code":           "the lower 32 bits",
	"proc.psinfo.end_code":             "the lower 32 bits",
	"proc.psinfo.start_stack":          "the lower 32 bits",
	"proc.psinfo.esp":                  "the lower 32 bits",
	"proc.psinfo.eip":                  "the lower 32 bits",
	"proc.id.gid":                      "the user",
	"cgroup.cpuacct.stat.user":         "ticks for milliseconds",
	"cgroup.cpuacct.stat.system":       "ticks for milliseconds",
	"cgroup.netclass.classid":          "no values",
	"cgroup.netclass.id.container":     "no values",

	"cgroup.memory.stat.workingset.activate": "no values since Linux 5.9",
	"cgroup.memory.stat.workingset.refault":  "no values since Linux 5.9",
}

// withoutZeros removes the zeros that pmdaproc has of files of blkio that do not exist.
func withoutZeros(metric string, theirs, ours map[string]string) {
	maps.DeleteFunc(theirs, func(inst, v string) bool {
		_, has := ours[inst]
		return strings.HasPrefix(metric, "cgroup.blkio.") && !has && v == fmt.Sprint(make([]byte, 8))
	})
}

// countsItself are counts of processes by state in which pmdaproc counts itself as running.
// The main thread of this process, whose state is that of the process, sleeps when another
// thread reads.
var countsItself = map[string]int32{"proc.runq.runnable": -1, "proc.runq.sleeping": 1}

// Values of processes are those of pmdaproc: the same if nothing changes, else
// between what it says before ours and after.
func TestProcValues(t *testing.T) {
	c, ours, metrics, reader := procAgents(t, "")
	pid := pdu.NewPMID(3, 8, 0)
	// Command lines first: pmdaproc keeps those that it has seen before an exec.
	i := slices.IndexFunc(metrics, func(m pmnsload.Entry) bool { return m.Name == "proc.psinfo.psargs" })
	metrics[0], metrics[i] = metrics[i], metrics[0]
	for _, m := range metrics {
		if wrong[m.Name] != "" || !strings.HasPrefix(m.Name, "proc.") || newIn7(m) {
			continue
		}
		// pmdaproc looks for processes only if some of the metrics are asked for.
		req := &pdu.Fetch{PMIDs: []pdu.PMID{pid, m.PMID}}
		values := func(tr transport.Transport) pdu.ValueSet {
			return compared(ask[pdu.Result](t, tr, req).Sets[1], reader)
		}
		var bad map[int32]string
		if !peer.Until(peer.Hangs, func() bool {
			before := values(c)
			if i, ok := countsItself[m.Name]; ok && len(before.Values) == 1 {
				before.Values[0].Word += uint32(i)
			}
			now := differ(before, values(ours), values(c))
			if bad == nil {
				bad = now
			}
			maps.DeleteFunc(bad, func(inst int32, _ string) bool { return now[inst] == "" })
			return len(bad) == 0
		}) {
			t.Errorf("%s: pmdaproc, ours, pmdaproc:\n%v", m.Name, bad)
		}
	}
}

// compared leaves out processes that cannot be compared: of this one and of the
// reader, pmdaproc, reading has the numbers change, and of one whose files can be opened but not read,
// pmdaproc has what it has read before. In text it has control characters.
func compared(s pdu.ValueSet, reader int32) pdu.ValueSet {
	s.Values = slices.DeleteFunc(s.Values, func(v pdu.Value) bool {
		if v.Inst == pdu.NoInst {
			return false
		}
		_, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", v.Inst))
		return v.Inst == int32(os.Getpid()) || v.Inst == reader || errors.Is(err, fs.ErrPermission)
	})
	for i, v := range s.Values {
		if v.Type == pdu.MetricString {
			s.Values[i].Block = bytes.Map(func(r rune) rune {
				if r > 0 && r < ' ' {
					return ' '
				}
				return r
			}, v.Block)
			// What a thread of the kernel works at becomes part of its name.
			if bytes.HasPrefix(v.Block, []byte("(kworker/")) {
				s.Values[i].Block, _, _ = bytes.Cut(v.Block, []byte{'-'})
				s.Values[i].Block = bytes.TrimRight(s.Values[i].Block, ")\x00")
			}
		}
	}
	return s
}

// differ returns the instances of which s has not what is between a and b, if
// both have them; of what only one of them has nothing can be said.
func differ(a, s, b pdu.ValueSet) map[int32]string {
	bad := map[int32]string{}
	byID := func(set pdu.ValueSet) map[int32]pdu.ValueSet {
		m := make(map[int32]pdu.ValueSet)
		for _, v := range set.Values {
			m[v.Inst] = pdu.ValueSet{Values: []pdu.Value{v}}
		}
		return m
	}
	before, now, after := byID(a), byID(s), byID(b)
	for inst, x := range before {
		if y, ok := after[inst]; ok && !between(x, now[inst], y) {
			bad[inst] = fmt.Sprintf("%v %v %v", x.Values, now[inst].Values, y.Values)
		}
	}
	for inst, v := range now {
		if len(before[inst].Values)+len(after[inst].Values) == 0 {
			bad[inst] = fmt.Sprintf("only ours: %v", v.Values)
		}
	}
	if a.Err != s.Err || s.Err != b.Err {
		bad[pdu.NoInst] = fmt.Sprint(a.Err, s.Err, b.Err)
	}
	return bad
}

// Control groups are those of pmdaproc, in trees composed from the formats that
// the kernel documents.
func TestProcCgroups(t *testing.T) {
	for version, files := range map[string]map[string]string{
		"1": {
			"proc/mounts":               "cgroup /cg/memory cgroup rw,memory 0 0\ncgroup /cg/cpu cgroup rw,cpu 0 0\ncgroup /cg/blk cgroup rw,blkio 0 0\n",
			"proc/cgroups":              "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t1\t2\t1\nmemory\t4\t43\t1\nblkio\t5\t1\t1\n",
			"proc/diskstats":            "   8       0 sda 1 2 3 4\n",
			"cg/memory/memory.stat":     "cache 4096\nrss 8192\ntotal_rss 99\n",
			"cg/memory/a/memory.stat":   "cache 1\n",
			"cg/cpu/cpu.shares":         "1024\n",
			"cg/cpu/cpu.cfs_quota_us":   "-1\n",
			"cg/cpu/x/cpu.cfs_quota_us": "5000\n",
			"cg/blk/blkio.sectors":      "8:0 11\n",
			"cg/blk/blkio.io_serviced":  "8:0 Read 1\n8:0 Write 2\n8:0 Sync 3\n8:0 Async 4\n8:0 Total 5\nTotal 5\n",
		},
		"2": {
			"proc/mounts":               "cgroup2 /cg cgroup2 rw 0 0\n",
			"proc/diskstats":            "   8       0 sda 1 2 3 4\n",
			"cg/cpu.stat":               "usage_usec 10\nuser_usec 7\nsystem_usec 3\n",
			"cg/io.stat":                "8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6\n",
			"cg/a.slice/io.pressure":    "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=5\n",
			"cg/a.slice/memory.stat":    "anon 4096\nfile 1\n",
			"cg/a.slice/memory.current": "8192\n",
		},
	} {
		root := pmdatest.Tree(t, files)
		c, ours, metrics, _ := procAgents(t, root)
		theirReader, ourReader := newReader(c), newReader(ours)
		compared := 0
		for _, m := range metrics {
			if !strings.HasPrefix(m.Name, "cgroup.") || strings.HasPrefix(m.Name, "cgroup.cpuset.") || strings.HasPrefix(m.Name, "cgroup.cpuacct.") {
				continue // pmdaproc has the last two of version 2 wrong
			}
			theirs, got := theirReader.values(t, m.PMID), ourReader.values(t, m.PMID)
			if m.Name == "cgroup.cpusched.cfs_quota" { // -2 if there is no such file
				maps.DeleteFunc(theirs, func(_, v string) bool { return v == fmt.Sprint([]byte{255, 255, 255, 255, 255, 255, 255, 254}) })
			}
			withoutZeros(m.Name, theirs, got)
			if !maps.Equal(theirs, got) {
				t.Errorf("version %s: %s\npmdaproc has %v\nours has     %v", version, m.Name, theirs, got)
			}
			compared += len(got)
		}
		if compared < 10 {
			t.Errorf("version %s: %d values", version, compared)
		}
	}
}

// A reader reads values of an agent, and keeps the names of instances.
type reader struct {
	transport.Transport
	with  []pdu.PMID // is asked for in front of each metric
	names map[pdu.InDom]map[int32]string
}

func newReader(tr transport.Transport, with ...pdu.PMID) *reader {
	return &reader{tr, with, make(map[pdu.InDom]map[int32]string)}
}

// values returns values of a metric by the names of instances, or an error by
// none.
func (r *reader) values(t *testing.T, id pdu.PMID) map[string]string {
	t.Helper()
	var reply pdu.Result
	if err := transporttest.Do(r, agents.Origin{}, &pdu.Fetch{PMIDs: append(r.with, id)}, &reply); err != nil {
		return map[string]string{"": err.Error()}
	}
	set := reply.Sets[len(r.with)]
	m := map[string]string{}
	if set.Err != 0 {
		m[""] = set.Err.Error()
	}
	d := ask[pdu.Desc](t, r, &pdu.DescReq{PMID: id}).InDom
	for _, v := range set.Values {
		name := ""
		if d != pdu.NoInDom {
			name = r.name(t, d, v.Inst)
		}
		m[name] = fmt.Sprint(v.Block)
		if v.Block == nil {
			m[name] = fmt.Sprint(v.Word)
		}
	}
	return m
}

func (r *reader) name(t *testing.T, d pdu.InDom, inst int32) string {
	t.Helper()
	name, ok := r.names[d][inst]
	if !ok {
		r.names[d] = make(map[int32]string)
		for _, i := range ask[pdu.Instance](t, r, &pdu.InstanceReq{InDom: d, Inst: pdu.NoInst}).Insts {
			r.names[d][i.ID] = i.Name
		}
		name = r.names[d][inst]
	}
	return name
}
