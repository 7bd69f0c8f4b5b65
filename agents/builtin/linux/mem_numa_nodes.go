package linux

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// nodes are the NUMA nodes of /sys/devices/system/node and their CPUs. The
// directories are read once, and again if other nodes are online or there is a CPU without a node.
type nodes struct {
	h               *host
	list            []node
	online          []byte      // the file that names the nodes
	byCPU           map[int]int // numbers of nodes by number of the CPU
	infoByNode      map[int]*nodeInfo
	cpusWithoutNode int // number of CPUs without a node at the last scan; -1 before the first
	source          *pmda.Source
}

type node struct {
	num  int
	name string // node0
	*nodeInfo
}

func newNodes(h *host) *nodes {
	n := &nodes{h: h, cpusWithoutNode: -1, infoByNode: make(map[int]*nodeInfo)}
	n.source = &pmda.Source{Read: func(context.Context, *pmda.Request) error {
		online := h.hostReader.Path("/sys/devices/system/node/online").Value()
		if n.byCPU == nil || !bytes.Equal(online, n.online) {
			n.online = append(n.online[:0], online...)
			n.scan()
			n.cpusWithoutNode = -1
		}
		return nil
	}}
	return n
}

// scan reads the directories of the nodes.
func (n *nodes) scan() {
	n.list, n.byCPU = nil, make(map[int]int)
	dir := n.h.path("sys/devices/system/node")
	found := dirNames(dir)
	if found == nil { // a kernel without NUMA
		n.list = []node{n.node(0, "node0")}
		return
	}
	for _, name := range found {
		num, ok := numbered(name, "node")
		if !ok {
			continue
		}
		n.list = append(n.list, n.node(num, name))
		for _, e := range dirNames(dir + "/" + name) {
			if cpu, ok := numbered(e, "cpu"); ok {
				n.byCPU[cpu] = num
			}
		}
	}
	slices.SortFunc(n.list, func(a, b node) int { return a.num - b.num })
}

// node returns a node with its nodeInfo, which outlasts a scan.
func (n *nodes) node(num int, name string) node {
	if n.infoByNode[num] == nil {
		n.infoByNode[num] = new(nodeInfo)
	}
	return node{num, name, n.infoByNode[num]}
}

// numbered returns the number in a name like node12.
func numbered(name, prefix string) (int, bool) {
	digits, ok := strings.CutPrefix(name, prefix)
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), ok && err == nil
}

// assignNodes sets the node of each CPU of s.
func (n *nodes) assignNodes(s *stat) {
	missing := 0
	for _, c := range s.cpus {
		if c != nil && c.node < 0 {
			missing++
		}
	}
	if missing == 0 || missing == n.cpusWithoutNode {
		return
	}
	n.scan()
	n.cpusWithoutNode = 0
	for _, c := range s.cpus {
		if c == nil || c.node >= 0 {
			continue
		}
		if num, ok := n.byCPU[c.num]; ok {
			c.node = num
		} else if len(n.byCPU) == 0 && len(n.list) > 0 {
			c.node = 0
		} else {
			n.cpusWithoutNode++
		}
	}
}

// Each implements pmda.Instances. As in PCP, instance ids count the nodes, and are
// not their numbers.
func (n *nodes) Each(yield func(inst int32, name string, data any) bool) {
	for i := range n.list {
		if !yield(int32(i), n.list[i].name, &n.list[i]) {
			return
		}
	}
}

func (n *nodes) metrics(s *stat, m *meminfo) []pmda.Metric {
	indom := &pmda.InDom{
		Serial: indomNode,
		Insts:  n,
		Source: n.source,
		Labels: pmda.Labels{"device_type": "numa_node", "indom_name": "per numa_node"},
		// C differs: numa_node is the instance id.
		InstLabels: func(_ context.Context, _ *pmda.Request, i pdu.Inst) (pmda.Labels, error) {
			return pmda.Labels{"numa_node": n.list[i.ID].num}, nil
		},
	}
	online := pmda.FromData(func(v *pmda.Value, d *node) { v.SetUint(n.h.online("node", d.name)) })
	ofCPU := pmda.FromData(func(v *pmda.Value, c *cpu) {
		if c.node >= 0 {
			v.SetUint(uint64(c.node))
		}
	})
	assign := &pmda.Source{Read: func(context.Context, *pmda.Request) error {
		n.assignNodes(s)
		return nil
	}}
	return slices.Concat(
		table(pmda.Metric{InDom: indom}, []row{
			{55, 1, "hinv.node.online", u32, instant, none, online},
		}),
		table(pmda.Metric{InDom: s.indom, Source: assign}, []row{
			{18, 8, "hinv.map.cpu_node", u32, discrete, none, ofCPU},
		}),
		table(pmda.Metric{Source: n.source}, []row{
			{0, 19, "hinv.nnode", u32, discrete, none, pmda.FromUint(func() (uint64, bool) { return uint64(len(n.list)), true })},
		}),
		newNUMA(n.h, n, s, m).metrics(indom, m))
}

// online returns the number in the file online of a CPU or node. If there is no such
// file, it cannot be switched off, and online returns 1.
func (h *host) online(kind, name string) uint64 {
	if n, ok := h.hostReader.Path("/sys/devices/system/").Name(kind).Str("/").Name(name).Str("/online").Number(); ok {
		return n
	}
	return 1
}
