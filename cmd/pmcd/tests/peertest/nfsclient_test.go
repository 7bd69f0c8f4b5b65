package peertest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/nfsclient"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/pdu"
)

const pythonNFSClient = "/var/lib/pcp/pmdas/nfsclient/pmdanfsclient.python"

// qaMounts are those of PCP's own tests, of many kernels.
const qaMounts = "/var/lib/pcp/testsuite/nfsclient/*.qa"

// moreMounts has options and a transport that those lack.
var moreMounts = "device proc mounted on /proc with fstype proc\n" +
	"device nas:/a\\040b mounted on /mnt/a\\040b with fstype nfs statvers=1.1\n" +
	"\topts:\tro,sync,noatime,vers=3,rsize=32768,wsize=65536,bsize=4096,namlen=255,acregmin=3,acregmax=60,acdirmin=30,acdirmax=60," +
	"soft,posix,nocto,noac,nolock,nordirplus,nosharecache,noresvport,proto=udp,port=2049,timeo=11,retrans=5,sec=krb5," +
	"mountaddr=192.0.2.1,mountvers=3,mountport=30000,mountproto=udp,fsc,migration,lookupcache=pos,local_lock=all\n" +
	"\tage:\t4294967294\n\tcaps:\tcaps=0x3fc7,wtmult=4096\n\tsec:\tflavor=6,pseudoflavor=390003\n" +
	"\tevents:\t1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 4294967323 \n" +
	"\tbytes:\t31 32 33 34 35 36 37 18446744073709551615 \n\tRPC iostats version: 1.0  p/v: 100003/3 (nfs)\n" +
	"\txprt:\tudp 774 42 43 44 45 46 47 48 49 50\n\tper-op statistics\n" +
	"\t        NULL: 0 0 0 0 0 0 0 0\n\t READDIRPLUS: 61 62 63 64 65 66 67 18446744073709551615\n\t   READ_PLUS: 1 1 1 1 1 1 1 1\n\n" +
	"device nas:/old mounted on /mnt/b with fstype nfs4 statvers=1.1\n\topts:\trw,vers=4.0,hard,proto=tcp,clientaddr=2001:db8::2\n\n" +
	"device nas:/new mounted on /mnt/b with fstype nfs4 statvers=1.1\n\topts:\trw,vers=4.1,hard,proto=rdma,lookupcache=none\n" +
	"\tage:\t5\n\tcaps:\tx\n\tnfsv4:\ty z\n\tsec:\tflavor=1\n\tevents:\t" + strings.Repeat("5 ", 27) + "\n\tbytes:\t" + strings.Repeat("6 ", 8) + "\n" +
	"\txprt:\trdma 0 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27\n\n"

// alwaysZero are what PCP's agent does not read.
var alwaysZero = strings.Fields("options.ac options.acl options.atime options.cto options.diratime options.lock options.rdirplus " +
	"options.resvport options.sharecache xprt.max_slots")

// Names, descriptors, instances, saved ids and values are those of PCP's agent in Python.
func TestNFSClient(t *testing.T) {
	peer.Require(t)
	testutil.NeedPeer(t, pythonNFSClient)
	files := peer.Must(filepath.Glob(qaMounts))(t)
	if len(files) < 5 {
		testutil.Missing(t, "the files "+qaMounts)
	}
	more := filepath.Join(t.TempDir(), "more")
	if err := os.WriteFile(more, []byte(moreMounts), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range append(files, more) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			// One of PCP's has a remark in a line.
			text := strings.ReplaceAll(string(peer.Must(os.ReadFile(path))(t)), "  (time, in seconds, since the NFS is mounted)", "")
			path := filepath.Join(t.TempDir(), "mountstats")
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
			vars := pmdatest.Tree(t, map[string]string{"config/pmda/62.0": "2 0 2147483647\n3 1700000000 /mnt/b\n"})
			t.Setenv("PCP_VAR_DIR", vars)
			t.Setenv("NFSCLIENT_MOUNTSTATS_PATH", path)
			// It writes its log to the working directory.
			c := startProgram(t, "/bin/sh", "-c", `cd "$0" && exec /usr/bin/python3 "$1"`, t.TempDir(), pythonNFSClient)
			dir := pmdatest.Tree(t, map[string]string{"62.0": string(peer.Must(os.ReadFile(filepath.Join(vars, "config/pmda/62.0")))(t))})
			a, err := nfsclient.Open(62, nfsclient.Options{File: path, CacheDir: dir})
			if err != nil {
				t.Fatal(err)
			}
			ours := transport.Inline(a)
			t.Cleanup(func() { ours.Close() })
			compareNFSClient(t, c, ours, text)
			stamps := regexp.MustCompile(`(?m)^(\d+) \d+ /`)
			saved := func(path string) string {
				return stamps.ReplaceAllString(string(peer.Must(os.ReadFile(path))(t)), "$1 NOW /")
			}
			same(t, "62.0", saved(filepath.Join(vars, "config/pmda/62.0")), saved(filepath.Join(dir, "62.0")))
		})
	}
}

func compareNFSClient(t *testing.T, c, ours transport.Transport, text string) {
	t.Helper()
	names := func(tr transport.Transport) []string {
		return slices.Sorted(slices.Values(ask[pdu.PMNSNames](t, tr, &pdu.PMNSTraverse{Name: "nfsclient"}).Names))
	}
	all := names(c)
	if got := names(ours); !slices.Equal(got, all) || len(all) != 720 {
		t.Fatalf("%d and %d names", len(all), len(got))
	}
	ids := make([]pdu.PMID, len(all))
	for i, name := range all {
		req := &pdu.PMNSNames{Names: []string{name}}
		ids[i] = ask[pdu.PMNSIDs](t, c, req).PMIDs[0]
		same(t, name, ids[i], ask[pdu.PMNSIDs](t, ours, req).PMIDs[0])
		d := &pdu.DescReq{PMID: ids[i]}
		same(t, name, ask[pdu.Desc](t, c, d), ask[pdu.Desc](t, ours, d))
	}
	indom := pdu.NewInDom(62, 0)
	ofC, ofOurs := allValues(t, c, indom, ids), allValues(t, ours, indom, ids)
	values := 0
	for i, name := range all {
		theirs, got := ofC[i], ofOurs[i]
		isOp := strings.HasPrefix(name, "nfsclient.ops.")
		if isOp && strings.Contains(text, "iostats version: 1.1") { // 6.0.3 does not read them
			continue
		}
		for inst, v := range theirs {
			if slices.Contains(alwaysZero, strings.TrimPrefix(name, "nfsclient.")) {
				theirs[inst] = got[inst]
			}
			if _, ok := got[inst]; isOp && !ok && strings.Trim(v, "[] 0") == "" { // the mount does not have the operation
				delete(theirs, inst)
			}
		}
		if isOp && len(theirs) == 0 {
			delete(got, "") // the error of an operation that no mount has
		}
		if !maps.Equal(theirs, got) {
			t.Errorf("%s\nPCP's agent has %v\nours        %v", name, theirs, got)
		}
		values += len(got)
	}
	if values == 0 && strings.Contains(text, " nfs ") {
		t.Error("no values")
	}
}

// allValues returns the values of metrics by the names of instances of one domain, or an error by
// none.
func allValues(t *testing.T, tr transport.Transport, indom pdu.InDom, ids []pdu.PMID) (all []map[string]string) {
	t.Helper()
	sets := ask[pdu.Result](t, tr, &pdu.Fetch{PMIDs: ids}).Sets
	names := map[int32]string{}
	for _, i := range ask[pdu.Instance](t, tr, &pdu.InstanceReq{InDom: indom, Inst: pdu.NoInst}).Insts {
		names[i.ID] = i.Name
	}
	for _, set := range sets {
		m := map[string]string{}
		if set.Err != 0 {
			m[""] = set.Err.Error()
		}
		for _, v := range set.Values {
			m[names[v.Inst]] = fmt.Sprint(v.Word, v.Block)
		}
		all = append(all, m)
	}
	return all
}

// A line for PCP's agent is the built-in agent if Python or the agent does not exist.
func TestNFSClientWithoutPython(t *testing.T) {
	peer.Require(t)
	mounts := filepath.Join(t.TempDir(), "mountstats")
	if err := os.WriteFile(mounts, []byte(moreMounts), 0o644); err != nil {
		t.Fatal(err)
	}
	pmcd := peer.Must(peer.UnderTest())(t)
	for _, tt := range []struct{ command, missing string }{
		{"/nonexistent/python3 " + pythonNFSClient, "/nonexistent/python3"},
		{"/bin/sh /nonexistent/pmdanfsclient.python", "/nonexistent/pmdanfsclient.python"},
	} {
		d := peer.StartT(t, pmcd, peer.Config{
			Agents: []string{"nfsclient 62 pipe binary " + tt.command},
			PMNS:   "root {\n\tnfsclient 62:*:*\n}\n",
			Env:    []string{"NFSCLIENT_MOUNTSTATS_PATH=" + mounts},
		})
		o, err := d.Run(t.Context(), peer.Unix, words("pminfo -h {host} -f nfsclient.options.vers"))
		if err != nil || !strings.Contains(o.Stdout, `"/mnt/b"] value "4.1"`) {
			t.Errorf("%s: %v\n%s", tt.command, err, o)
		}
		want := "is built in: " + tt.missing + " does not exist"
		if log := d.Log(); !strings.Contains(log, want) {
			t.Errorf("%s: no %q in the log:\n%s", tt.command, want, log)
		}
	}
}
