package linux

import (
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

// testdata/storage is composed, see its README.
func TestNFS(t *testing.T) {
	r := newHarness(t, Options{Root: "testdata/storage"})
	r.Want(map[string]string{
		"rpc.client.rpccnt":            "4329785",
		"rpc.client.nettcpconn":        "6",
		"nfs.client.calls":             "4582",
		"nfs3.client.calls":            "4327403",
		"nfs4.client.calls":            "1605", // the sum of 1 to 57, except 48 of layoutreturn
		"rpc.server.rcmisses":          "6",
		"rpc.server.fh_lookup":         "2",
		"rpc.server.fh_nocache_nondir": "5",
		"rpc.server.fh_cached":         "0",
		"rpc.server.io_read":           "157286400",
		"rpc.server.io_write":          "3", // the lower 32 bits
		"rpc.server.th_cnt":            "8",
		"rpc.server.ra_size":           "32",
		"rpc.server.ra_hits":           "55",
		"rpc.server.ra_misses":         "77",
		"rpc.server.rpcbadclnt":        "1",
		"nfs4.server.calls":            "9585",
		"nfs.server.threads.total":     "8",
		"nfs.server.threads.pools":     "2",
		"nfs.server.threads.requests":  "15340",
		"nfs.server.threads.enqueued":  "22",
		"nfs.server.threads.processed": "15268",
		"nfs.server.threads.timedout":  "41",
	})
	for name, want := range map[string]string{
		"nfs.client.reqs":  "null=2 getattr=69 setattr=0 root=0 lookup=4410 ",
		"nfs3.client.reqs": "null=1 getattr=4084749 setattr=29200 ",
		"nfs3.server.reqs": "null=2 getattr=112 setattr=0 lookup=2719 ",
		"nfs4.client.reqs": "null=1 read=2 write=3 commit=4 ",
		"nfs4.server.reqs": "op0-unused=100 op1-unused=101 op2-future=102 access=103 ",
	} {
		if got := r.Values(name); !strings.HasPrefix(got, want) {
			t.Errorf("%s is %q, want %q and more", name, got, want)
		}
	}
	if got := r.Values("nfs4.client.reqs"); !strings.Contains(got, " layoutcommit=47 secinfononam=49 ") || !strings.HasSuffix(got, " deallocate=57") {
		t.Errorf("nfs4.client.reqs is %q", got)
	}
	if got := r.Values("nfs4.server.reqs"); !strings.HasSuffix(got, " seek=169 write_same=170") {
		t.Errorf("nfs4.server.reqs is %q", got)
	}
}

func TestBrokenNFS(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/net/rpc/nfs":          "rpc 5 x\n\nproc2 18 1 x 3\nproc3\nproc4x 9 9 9\nnet 1 2",
		"proc/net/rpc/nfsd":         "",
		"proc/fs/nfsd/pool_threads": "4 5 6\n",
		"proc/fs/nfsd/pool_stats":   "# pool\n0 1 2 3 4 5\n1 1 2 x 4\n2 1 2 3\n",
	})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"rpc.client.rpccnt":           "5",
		"rpc.client.rpcretrans":       "",
		"rpc.client.rpcauthrefresh":   "0",
		"rpc.client.netudpcnt":        "2",
		"rpc.client.nettcpcnt":        "0",
		"nfs.client.calls":            "",
		"nfs3.client.calls":           "0",
		"nfs4.client.calls":           "0",
		"rpc.server.rpccnt":           "0",
		"nfs.server.threads.total":    "15",
		"nfs.server.threads.pools":    "1",
		"nfs.server.threads.timedout": "4",
	})
	if got := r.Values("nfs.client.reqs"); !strings.HasPrefix(got, "null=1 setattr=3 root=0 ") {
		t.Errorf("nfs.client.reqs is %q", got)
	}
	for _, tt := range []struct{ threads, stats, total, requests string }{
		{"0\n", "0 1 2 3 4\n", "0", "0"}, // the server does not run
		{"8\n", "", "", ""},
		{"x\n", "0 1 2 3 4\n", "", ""},
		{"", "0 1 2 3 4\n", "", ""},
		{"1 x\n", "0 1 2 3 4\n", "", ""},
		{"8\n", "0 1 2 3 4\n", "8", "1"},
	} {
		pmdatest.WriteFile(t, root, "proc/fs/nfsd/pool_threads", tt.threads)
		pmdatest.WriteFile(t, root, "proc/fs/nfsd/pool_stats", tt.stats)
		t.Logf("%q %q", tt.threads, tt.stats)
		r.Want(map[string]string{"nfs.server.threads.total": tt.total, "nfs.server.threads.requests": tt.requests})
	}
}
