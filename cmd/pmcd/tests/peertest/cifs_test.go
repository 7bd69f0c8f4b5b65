package peertest

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/cifs"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

const (
	pmdacifs = "/usr/lib/pcp/pmdas/cifs/pmdacifs"

	// qaCIFS are those of PCP's own tests.
	qaCIFS = "/var/lib/pcp/testsuite/cifs/*.tgz"
)

// cifs5 is of a host with Linux 5.15: a share by SMB 3, and one that is not connected.
var cifs5 = map[string]string{
	"Stats": "Resources in use\nCIFS Session: 2\nShare (unique mount targets): 4\nSMB Request/Response Buffer: 2 Pool size: 6\n" +
		"SMB Small Req/Resp Buffer: 3 Pool size: 30\nOperations (MIDs): 1\n\n7 session 8 share reconnects\n" +
		"Total vfs operations: 255 maximum at one time: 4\n\nMax requests in flight: 11\n" +
		"1) \\\\192.0.2.1\\one\tDISCONNECTED \nSMBs: 0\nBytes read: 5  Bytes written: 6\nOpen files: 1 total (local), 2 open on server\n" +
		"TreeConnects: 10 total 11 failed\nTreeDisconnects: 12 total 13 failed\nCreates: 14 total 15 failed\nCloses: 16 total 17 failed\n" +
		"Flushes: 18 total 19 failed\nReads: 20 total 21 failed\nWrites: 22 total 23 failed\nLocks: 24 total 25 failed\n" +
		"IOCTLs: 26 total 27 failed\nQueryDirectories: 28 total 29 failed\nChangeNotifies: 30 total 31 failed\nQueryInfos: 32 total 33 failed\n" +
		"SetInfos: 34 total 35 failed\nOplockBreaks: 36 sent 37 failed\n\nMax requests in flight: 3\n" +
		"2) \\\\host.example\\two$\nSMBs: 40\nReads: 18446744073709551615 total 42 failed\n",
	"DebugData": "CIFS Version 2.34\nFeatures: DFS\n",
}

// Descriptors, instances and values are those of PCP's agent.
func TestCIFS(t *testing.T) {
	peer.Require(t)
	testutil.NeedPeer(t, pmdacifs)
	roots := map[string]string{"5.15": pmdatest.Tree(t, map[string]string{
		"proc/fs/cifs/Stats": cifs5["Stats"], "proc/fs/cifs/DebugData": cifs5["DebugData"],
	})}
	archives := peer.Must(filepath.Glob(qaCIFS))(t)
	if len(archives) < 2 {
		testutil.Missing(t, "the files "+qaCIFS)
	}
	for _, path := range archives {
		root := t.TempDir()
		if out, err := exec.Command("tar", "xzf", path, "-C", root).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		roots[filepath.Base(path)] = root
	}
	for _, name := range slices.Sorted(maps.Keys(roots)) {
		t.Run(name, func(t *testing.T) {
			t.Setenv("CIFS_STATSPATH", roots[name])
			c := startProgram(t, pmdacifs, "-d", "121", "-l", filepath.Join(t.TempDir(), "cifs.log"))
			a, err := cifs.New(121)
			if err != nil {
				t.Fatal(err)
			}
			ours := transport.Inline(a)
			t.Cleanup(func() { ours.Close() })
			b, _ := os.ReadFile(filepath.Join(roots[name], "proc/fs/cifs/DebugData"))
			compareCIFS(t, c, ours, strings.Contains(string(b), "CIFS Version"), strings.Contains(string(b), "CIFS Version 2"))
		})
	}
}

// compareCIFS compares what 6.0.3 has, which are the clusters 0 and 1. A value of the kernel
// that PCP's agent does not read, and a 0 that the kernel has not written, is in
// docs/agents/cifs.md.
func compareCIFS(t *testing.T, c, ours transport.Transport, hasVersion, version2 bool) {
	t.Helper()
	var names []string
	var ids []pdu.PMID
	for _, name := range slices.Sorted(slices.Values(ask[pdu.PMNSNames](t, ours, &pdu.PMNSTraverse{Name: "cifs"}).Names)) {
		id := ask[pdu.PMNSIDs](t, ours, &pdu.PMNSNames{Names: []string{name}}).PMIDs[0]
		if id.Cluster() > 1 {
			continue
		}
		names, ids = append(names, name), append(ids, id)
		d := &pdu.DescReq{PMID: id}
		same(t, name, ask[pdu.Desc](t, c, d), ask[pdu.Desc](t, ours, d))
	}
	if len(ids) != 67 {
		t.Errorf("%d metrics", len(ids))
	}
	indom := pdu.NewInDom(121, 0)
	instances := &pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst}
	ofC, ofOurs := allValues(t, c, indom, ids), allValues(t, ours, indom, ids)
	same(t, "instances", fmt.Sprint(ask[pdu.Instance](t, c, instances).Insts), fmt.Sprint(ask[pdu.Instance](t, ours, instances).Insts))
	compared := 0
	for i, name := range names {
		theirs, got := ofC[i], ofOurs[i]
		switch {
		case name == "cifs.version" && !hasVersion,
			version2 && slices.Contains(strings.Fields("cifs.fs.smbs cifs.fs.connected cifs.fs.read_bytes cifs.fs.write_bytes"), name):
			continue
		}
		for inst, v := range theirs {
			if _, ok := got[inst]; !ok && strings.Trim(v, "[] 0") == "" {
				delete(theirs, inst)
				delete(got, "") // the error of a metric that no share has
			}
		}
		if !maps.Equal(theirs, got) {
			t.Errorf("%s\nPCP's agent has %v\nours        %v", name, theirs, got)
		}
		compared += len(got)
	}
	if compared < 20 {
		t.Errorf("%d values compared", compared)
	}
}
