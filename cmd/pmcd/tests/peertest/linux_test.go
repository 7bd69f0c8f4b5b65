package peertest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/linux"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/internal/wire"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
	"github.com/gopcp/pmcd/pmnsload"
)

// linuxAgents are PCP's pmdalinux and ours for the files below root, but for what
// is new in 7.2.1, and the metrics of ours. They have a directory each for the ids of instances.
func linuxAgents(t *testing.T, root string) (c, ours transport.Transport, metrics []pmnsload.Entry) {
	t.Helper()
	peer.Require(t)
	vars := t.TempDir()
	if err := os.MkdirAll(vars+"/config/pmda", 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PCP_VAR_DIR", vars)
	t.Setenv("LINUX_STATSPATH", root)
	// What only root may read is shown to all, if it can be read.
	access := os.Getuid() == 0
	if access {
		t.Setenv("LINUX_ACCESS", "1")
	}
	settings, err := pcpconf.Load(os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range settings {
		if s.Name == "PCP_VERSION" { // pmcd has it in the environment of agents
			t.Setenv(s.Name, s.Value)
		}
	}
	p, err := child.Start(child.Spec{
		Argv:   []string{"/var/lib/pcp/pmdas/linux/pmdalinux", "-d", "60", "-l", t.TempDir() + "/log"},
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
	a, err := linux.Open(60, linux.Options{Root: root, CacheDir: t.TempDir(), Access: access})
	if err != nil {
		t.Fatal(err)
	}
	ours = asBefore7{transport.Inline(a), t}
	t.Cleanup(func() { ours.Close() })

	tree, err := pmnsload.Load("../../../../etc/root", pmnsload.Options{Preprocess: true})
	if err != nil {
		t.Fatal(err)
	}
	for e := range tree.All("") {
		if e.PMID.Domain() == 60 && !isNewSince7(e.PMID) {
			metrics = append(metrics, e)
		}
	}
	if len(metrics) < 1300 {
		t.Fatalf("%d metrics", len(metrics))
	}
	return client, ours, metrics
}

// ask sends a request and returns the reply.
func ask[T any, P interface {
	*T
	pdu.Message
}](t *testing.T, tr transport.Transport, req pdu.Message) T {
	t.Helper()
	reply := P(new(T))
	if err := transporttest.Do(tr, agents.Origin{}, req, reply); err != nil {
		t.Fatalf("%+v: %v", req, err)
	}
	return *reply
}

// Names, descriptors, instances and labels are those of pmdalinux.
func TestLinuxDescribed(t *testing.T) {
	c, ours, metrics := linuxAgents(t, "")
	installed, err := pmnsload.Load("/var/lib/pcp/pmns/root", pmnsload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	labels := func(tr transport.Transport, kind pdu.LabelKind, ident uint32) string {
		var text strings.Builder
		for _, s := range ask[pdu.Labels](t, tr, &pdu.LabelReq{Kind: kind, Ident: ident}).Sets {
			if len(s.Labels) > 0 { // instances without any are there or not
				fmt.Fprintf(&text, "%d: %s\n", s.Inst, s.JSON)
			}
		}
		return text.String()
	}
	same := func(what string, c, ours any) {
		t.Helper()
		if fmt.Sprint(c) != fmt.Sprint(ours) {
			t.Errorf("%s\npmdalinux has %+v\nours         %+v", what, c, ours)
		}
	}
	sameSoon := func(what string, of func(transport.Transport) any) { // instances come and go
		t.Helper()
		if !peer.Until(peer.Hangs, func() bool { return fmt.Sprint(of(c)) == fmt.Sprint(of(ours)) }) {
			same(what, of(c), of(ours))
		}
	}
	for e := range installed.All("") {
		if e.PMID.Domain() == 60 && isNewSince7(e.PMID) {
			t.Errorf("%s is not new", e.Name)
		}
	}
	indoms := map[pdu.InDom]bool{}
	for _, m := range metrics {
		id, _ := installed.PMID(m.Name)
		same(m.Name, id, m.PMID)
		req := &pdu.DescReq{PMID: m.PMID}
		d := ask[pdu.Desc](t, ours, req)
		same(m.Name, ask[pdu.Desc](t, c, req), d)
		same("labels of "+m.Name, labels(c, pdu.LabelItem, uint32(m.PMID)), labels(ours, pdu.LabelItem, uint32(m.PMID)))
		indoms[d.InDom] = true
	}
	delete(indoms, pdu.NoInDom)
	for _, d := range slices.Sorted(maps.Keys(indoms)) {
		req := &pdu.InstanceReq{InDom: d, Inst: pdu.NoInst}
		sameSoon(fmt.Sprint("instances of ", d), func(tr transport.Transport) any { return ask[pdu.Instance](t, tr, req) })
		same(fmt.Sprint("labels of ", d), labels(c, pdu.LabelInDom, uint32(d)), labels(ours, pdu.LabelInDom, uint32(d)))
		sameSoon(fmt.Sprint("labels of instances of ", d), func(tr transport.Transport) any { return labels(tr, pdu.LabelInstances, uint32(d)) })
	}
	same("labels of the domain", labels(c, pdu.LabelDomain, 60), labels(ours, pdu.LabelDomain, 60))
}

// notTheirs are metrics that pmdalinux has of a line of the kernel whose name only
// ends in theirs, FilePmdMapped and SecPageTables, or does not look for, or a sum
// that lacks pgsteal_anon and pgsteal_khugepaged, which are metrics since 6.3. Of limits that the type
// cannot hold, pmdalinux has the lower 32 bits.
var notTheirs = regexp.MustCompile(`^(ipc\.shm\.(max_segsz|max_shmsys)|vfs\.(files|aio)\.max|mem\.(numa\.util\.(mapped|pageTables)|zoneinfo\.nr_free_pages|vmstat\.pgsteal_total))$`)

// unknownSpeed is what pmdalinux makes of -1, which the kernel has for the speed
// of an interface that it does not know. Ours has no value then.
var unknownSpeed = map[string]float64{
	"network.interface.speed":    float64(float32(math.MaxUint32*1e6) / 8 / (1 << 20)),
	"network.interface.baudrate": math.MaxUint32 * 1e6 / 8,
}

// Values are those of pmdalinux: the same if nothing changes, else between what
// it says before ours and after.
func TestLinuxValues(t *testing.T) {
	c, ours, metrics := linuxAgents(t, "")
	// pmdalinux numbers interfaces that have addresses as they come, and a fetch
	// looks for one kind of address only.
	indom := &pdu.InstanceReq{InDom: pdu.NewInDom(60, 17), Inst: pdu.NoInst}
	ask[pdu.Instance](t, c, indom)

	for _, m := range metrics {
		if notTheirs.MatchString(m.Name) {
			continue
		}
		// One at a time: pmdalinux has other values for some metrics of
		// interfaces if it is asked for several.
		req := &pdu.Fetch{PMIDs: []pdu.PMID{m.PMID}}
		theirs := func() pdu.ValueSet {
			set := ask[pdu.Result](t, c, req).Sets[0]
			if speed, ok := unknownSpeed[m.Name]; ok {
				set.Values = slices.DeleteFunc(set.Values, func(v pdu.Value) bool { return numberOf(v) == speed })
			}
			return set
		}
		var bad map[int32]string
		// What goes up and down in between is looked at again.
		tries := 0
		if !peer.Until(peer.Hangs, func() bool {
			if tries++; tries%1000 == 0 { // an instance that only one of them has seen has ids differ for good
				c, ours, _ = linuxAgents(t, "")
				ask[pdu.Instance](t, c, indom)
			}
			before, got, after := theirs(), ask[pdu.Result](t, ours, req).Sets[0], theirs()
			if m.Name == "vfs.files.count" { // they have five files open when they count, we one
				before.Values[0].Word -= 16
				after.Values[0].Word += 16
			}
			now := differ(before, got, after)
			if bad == nil {
				bad = now
			}
			maps.DeleteFunc(bad, func(inst int32, _ string) bool { return now[inst] == "" })
			return len(bad) == 0
		}) {
			t.Errorf("%s: pmdalinux, ours, pmdalinux:\n%v", m.Name, bad)
		}
	}
	// A host that does nothing is idle: the next look is another one.
	clock := &pdu.Fetch{PMIDs: []pdu.PMID{pdu.NewPMID(60, 0, 23), pdu.NewPMID(60, 0, 20)}} // kernel.all.cpu.idle, user
	first := ask[pdu.Result](t, ours, clock)
	if !peer.Until(peer.Hangs, func() bool {
		return !reflect.DeepEqual(ask[pdu.Result](t, ours, clock).Sets, first.Sets)
	}) {
		t.Errorf("time stands still at %v", first.Sets)
	}
}

// ofHost are metrics that pmdalinux has of the host whatever the tree is, by
// ioctl(2), statfs(2) or shmctl(2), and the addresses in the order of a directory.
var ofHost = regexp.MustCompile(`^ipc\.shm\.(tot|rss|swp|used_ids)$|^network\.interface\.(mtu|speed|baudrate|duplex|up|running|type|wireless|inet_addr|ipv6_.*|hw_addr)$`)

// A recorded tree gives the same values to both.
func TestLinuxRecorded(t *testing.T) {
	for _, tree := range []string{"vm", "storage"} {
		t.Run(tree, func(t *testing.T) { testLinuxRecorded(t, tree) })
	}
}

// isStorage is what the tree of disks and file systems has the files of.
var isStorage = regexp.MustCompile(`^(disk|filesys|tmpfs|zram|network|hinv)\.`)

func testLinuxRecorded(t *testing.T, tree string) {
	root, err := filepath.Abs("../../../../agents/builtin/linux/testdata/" + tree)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("LINUX_NCPUS", "2") // pmdalinux counts those of the host
	// What mdadm would say of the devices of the tree, which pmdalinux asks.
	mdadm := t.TempDir() + "/mdadm"
	if err := os.WriteFile(mdadm, []byte("#!/bin/sh\ncase $3 in /dev/md127) exit 1;; *) exit 2;; esac\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LINUX_MDADM", mdadm)
	c, ours, metrics := linuxAgents(t, root)
	for _, m := range metrics {
		req := &pdu.Fetch{PMIDs: []pdu.PMID{m.PMID}}
		if notTheirs.MatchString(m.Name) || tree == "storage" && !isStorage.MatchString(m.Name) {
			continue
		}
		theirs, got := ask[pdu.Result](t, c, req).Sets[0], ask[pdu.Result](t, ours, req).Sets[0]
		if !notAgreed.MatchString(m.Name) && !ofHost.MatchString(m.Name) && !between(theirs, got, theirs) {
			t.Errorf("%s\npmdalinux has %v\nours has      %v", m.Name, theirs, got)
		}
	}
}

// between reports whether s has the instances of a and b, and its values are
// between theirs: text is the same, unless it changes meanwhile.
func between(a, s, b pdu.ValueSet) bool {
	if s.Err != a.Err || len(s.Values) != len(a.Values) || len(s.Values) != len(b.Values) {
		return false
	}
	for i, v := range s.Values {
		x, y := numberOf(a.Values[i]), numberOf(b.Values[i])
		switch n := numberOf(v); {
		case v.Inst != a.Values[i].Inst || v.Type != a.Values[i].Type:
			return false
		case v.Type == pdu.MetricString && bytes.Equal(a.Values[i].Block, b.Values[i].Block) && !bytes.Equal(v.Block, a.Values[i].Block):
			return false
		case v.Type != pdu.MetricString && (n < min(x, y) || n > max(x, y)):
			return false
		}
	}
	return true
}

func numberOf(v pdu.Value) float64 {
	var n uint64
	for _, b := range v.Block {
		n = n<<8 | uint64(b)
	}
	switch {
	case v.Block == nil:
		return float64(v.Word)
	case v.Type == pdu.MetricFloat:
		return float64(math.Float32frombits(uint32(n)))
	}
	return float64(n)
}
