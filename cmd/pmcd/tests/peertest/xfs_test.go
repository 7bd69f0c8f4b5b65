package peertest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/builtin/xfs"
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

// startPMDA starts a PMDA of PCP, with its log in a directory of its own.
func startPMDA(t *testing.T, name string, domain int, args ...string) transport.Transport {
	t.Helper()
	peer.Require(t)
	return startProgram(t, append([]string{
		"/var/lib/pcp/pmdas/" + name + "/pmda" + name, "-d", fmt.Sprint(domain), "-l", filepath.Join(t.TempDir(), "log"),
	}, args...)...)
}

// startProgram starts a PMDA by its command.
func startProgram(t *testing.T, argv ...string) transport.Transport {
	t.Helper()
	p, err := child.Start(child.Spec{Argv: argv, Pipes: true, Stderr: os.Stderr})
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
	return client
}

// Names, descriptors, labels and values are those of pmdaxfs, in a tree that is
// composed of all lines that PCP 6.0 knows.
func TestXFS(t *testing.T) {
	stats := func(from int) string {
		var b strings.Builder
		for _, line := range strings.Fields("extent_alloc:4 abt:4 blk_map:7 bmbt:4 dir:4 trans:3 ig:7 log:5 push_ail:10 xstrat:2 rw:2 attr:4 icluster:3 " +
			"vnodes:8 buf:9 abtb2:15 abtc2:15 bmbt2:15 ibt2:15 fibt2:15 rmapbt:15 refcntbt:15 qm:8 xpc:3 debug:1") {
			key, n, _ := strings.Cut(line, ":")
			b.WriteString(key)
			for i := 0; fmt.Sprint(i) != n; i++ {
				fmt.Fprintf(&b, " %d", from)
				from += 7
			}
			b.WriteByte('\n')
		}
		return b.String()
	}
	for name, files := range map[string]map[string]string{
		"of now": {
			"sys/fs/xfs/stats/stats":      stats(4_000_000_000),
			"sys/fs/xfs/sda1/stats/stats": stats(1),
			"sys/fs/xfs/sdb/stats/stats":  "rw 5\nlog 0 9\nxpc 18446744073709551615 1 99999999999\n",
			"sys/fs/xfs/debug/x":          "",
			"proc/mounts":                 "/dev/sda1 / xfs rw 0 0\n/dev/mapper/x /x xfs rw 0 0\n/dev/sdb /b ext4 rw 0 0\n/dev/sda1 /y xfs rw 0 0\n",
		},
		"of old": {"proc/fs/xfs/stat": stats(1), "proc/fs/xfs/xqmstat": "qm 1 2 3 4 5 6\n", "proc/mounts": ""},
		"none":   {"proc/mounts": ""},
	} {
		t.Run(name, func(t *testing.T) {
			root := pmdatest.Tree(t, files)
			t.Setenv("XFS_STATSPATH", root)
			c := startPMDA(t, "xfs", 11)
			a, err := xfs.New(11)
			if err != nil {
				t.Fatal(err)
			}
			ours := transport.Inline(a)
			t.Cleanup(func() { ours.Close() })
			installed, err := pmnsload.Load("/var/lib/pcp/pmns/root", pmnsload.Options{})
			if err != nil {
				t.Fatal(err)
			}
			metrics, values := 0, 0
			indoms := map[pdu.InDom]bool{}
			for e := range installed.All("") {
				if e.PMID.Domain() != 11 {
					continue
				}
				metrics++
				d := ask[pdu.Desc](t, ours, &pdu.DescReq{PMID: e.PMID})
				same(t, e.Name, ask[pdu.Desc](t, c, &pdu.DescReq{PMID: e.PMID}), d)
				indoms[d.InDom] = true
				if wrongXFS(e.Name) {
					continue
				}
				theirs, got := newReader(c).values(t, e.PMID), newReader(ours).values(t, e.PMID)
				if !maps.Equal(theirs, got) {
					t.Errorf("%s\npmdaxfs has %v\nours        %v", e.Name, theirs, got)
				}
				values += len(got)
			}
			if want := map[string]int{"of now": 500, "of old": 180, "none": 1}[name]; metrics < 397 || values < want {
				t.Errorf("%d metrics, %d values", metrics, values)
			}
			delete(indoms, pdu.NoInDom)
			for d := range indoms {
				req := &pdu.InstanceReq{InDom: d, Inst: pdu.NoInst}
				same(t, d.String(), fmt.Sprint(ask[pdu.Instance](t, c, req)), fmt.Sprint(ask[pdu.Instance](t, ours, req)))
			}
			// C differs: any client may.
			ours.Notify(transport.Notice{Attrs: []pdu.Attr{{Code: pdu.AttrUserID, Value: []byte("0")}}})
			for _, v := range []pdu.Value{{Inst: pdu.NoInst, Word: 1 << 31}, {Inst: pdu.NoInst, Word: 1}} {
				store := func(tr transport.Transport, id pdu.PMID) string {
					res := &pdu.Result{Sets: []pdu.ValueSet{{PMID: id, Values: []pdu.Value{v}}}}
					return fmt.Sprint(transporttest.Do(tr, agents.Origin{}, res, new(pdu.Error)))
				}
				for _, item := range []int{78, 79} {
					id := pdu.NewPMID(11, 16, item)
					same(t, fmt.Sprintf("store of %d into %v", v.Word, id), store(c, id), store(ours, id))
				}
			}
		})
	}
}

// wrongXFS reports whether pmdaxfs has something else for a metric.
func wrongXFS(name string) bool {
	name = strings.TrimPrefix(strings.TrimPrefix(name, "xfs."), "perdev.")
	for _, tree := range []string{"inode", "free_inode", "reverse_map", "refcount"} {
		if name == "btree."+tree+".lookup" || name == "btree."+tree+".compare" {
			return true // one has the values of the other
		}
	}
	// Without its fraction; 0 where there is no device.
	return name == "log.write_ratio" || strings.HasPrefix(name, "quota.state.")
}
