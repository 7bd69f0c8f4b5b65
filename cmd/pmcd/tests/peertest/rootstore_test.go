package peertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// TestPeerStoresOfRoot stores into the built-in agents what changes something for
// all clients, or in the kernel: root alone may, over the Unix socket.
func TestPeerStoresOfRoot(t *testing.T) {
	p := servers(t)
	if p.Same() {
		t.Skip("PCP's agents do not check the user of a store")
	}
	testutil.NeedRoot(t)
	root := pmdatest.Tree(t, map[string]string{"proc/sys/fs/xfs/stats_clear": ""})
	d := peer.StartT(t, p.Ours.Path, peer.Config{
		Agents: []string{
			"pmcd 2 dso pmcd_init /none", "proc 3 dso proc_init /none.so", "xfs 11 dso xfs_init /none.so",
		},
		PMNS: "root {\n\tpmcd\n\tproc\n\txfs\n}\npmcd {\n\tnumclients 2:0:3\n}\nproc {\n\tcontrol\n}\nproc.control {\n\tall\n}\n" +
			"proc.control.all {\n\tthreads 3:10:1\n}\nxfs {\n\tcontrol\n}\nxfs.control {\n\treset 11:16:79\n}\n",
		Env: []string{"XFS_STATSPATH=" + root},
	})
	for _, c := range []struct {
		tr    peer.Transport
		args  string
		code  int
		stats string // what the kernel was told
	}{
		{peer.TCP4, "pmstore -h {host} xfs.control.reset 1", 1, ""},
		{peer.TCP4, "pmstore -h {host} proc.control.all.threads 1", 1, ""},
		{peer.Unix, "runuser -u nobody -- pmstore -h {host} xfs.control.reset 1", 1, ""},
		{peer.Unix, "runuser -u nobody -- pmstore -h {host} proc.control.all.threads 1", 1, ""},
		{peer.Unix, "pmstore -h {host} proc.control.all.threads 1", 0, ""},
		{peer.Unix, "pmstore -h {host} xfs.control.reset 1", 0, "1\n"},
	} {
		o, err := d.Run(t.Context(), c.tr, words(c.args))
		if err != nil {
			t.Fatal(err)
		}
		if o.Code != c.code || c.code != 0 && !strings.Contains(o.Stdout+o.Stderr, "No permission") {
			t.Errorf("%v %s: want status %d\n%s", c.tr, c.args, c.code, o)
		}
		if b, err := os.ReadFile(filepath.Join(root, "proc/sys/fs/xfs/stats_clear")); string(b) != c.stats || err != nil {
			t.Errorf("%v %s: stats_clear has %q, %v", c.tr, c.args, b, err)
		}
	}
}

// The rule zeroconf.all_threads of pmie stores proc.control.all.threads as user pcp, by this
// command.
func TestPeerStoreAllThreads(t *testing.T) {
	p := servers(t)
	testutil.NeedRoot(t)
	pmdaproc := peer.Config{Agents: []string{"proc 3 pipe binary /var/lib/pcp/pmdas/proc/pmdaproc -d 3"}}
	ours := peer.Config{Agents: []string{"proc 3 dso proc_init builtin"}}
	if p.Same() {
		ours = pmdaproc
	}
	const pmns = "root {\n\tproc\n}\nproc {\n\tcontrol\n}\nproc.control {\n\tall\n}\nproc.control.all {\n\tthreads 3:10:1\n}\n"
	pmdaproc.PMNS, ours.PMNS = pmns, pmns
	for _, d := range []*peer.Daemon{peer.StartT(t, p.C.Path, pmdaproc), peer.StartT(t, p.Ours.Path, ours)} {
		for _, c := range []struct{ args, want string }{
			{"pminfo -h {host} -f proc.control.all.threads", "value 0"},
			{"runuser -u pcp -- pmstore -h {host} proc.control.all.threads 1", "old value=0 new value=1"},
			{"pminfo -h {host} -f proc.control.all.threads", "value 1"},
		} {
			o, err := d.Run(t.Context(), peer.Unix, words(c.args))
			if err != nil {
				t.Fatal(err)
			}
			if o.Code != 0 || !strings.Contains(o.Stdout, c.want) {
				t.Errorf("%s: %s: want %q\n%s", d.Path, c.args, c.want, o)
			}
		}
	}
}
