package peertest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

// The lines that PCP 7.2.1 installs for agents that are shared objects, and the names in its
// name space, are the built-in agents where PCP's do not exist.
func TestStockLines(t *testing.T) {
	peer.Require(t)
	pmcd := peer.Must(peer.UnderTest())(t)
	dir := pmdatest.Tree(t, map[string]string{
		"proc/fs/cifs/Stats":     "CIFS Session: 5\n1) \\\\a\\b\nSMBs: 7\n",
		"proc/fs/cifs/DebugData": "CIFS Version 2.55\n",
		"import/sadc":            fmt.Sprintf("pid=%d\nversion=12.8.0\nargs=CPU,DISK\narchive=/var/log/sa/sa01\n", os.Getpid()),
	})
	lines := []string{
		"cifs 121 dso cifs_init /nonexistent/pmdas/cifs/pmda_cifs.so",
		"pmimport 43 dso pmimport_init /nonexistent/pmdas/pmimport/pmda_pmimport.so",
	}
	d := peer.StartT(t, pmcd, peer.Config{
		Agents: lines,
		PMNS: "root {\n\tcifs\n\tpmimport\n}\ncifs {\n\tsession 121:0:0\n\tversion 121:0:11\n\tfs\n}\ncifs.fs {\n\tsmbs 121:1:1\n}\n" +
			"pmimport {\n\tarchive 43:0:0\n\tversion 43:0:1\n\targs 43:0:2\n\thostname 43:1:0\n\ttimezone 43:1:1\n\tzoneinfo 43:1:2\n}\n",
		Env: []string{"PCP_IMPORTRUN_DIR=" + dir + "/import", "CIFS_STATSPATH=" + dir},
	})
	for command, want := range map[string]string{
		"pminfo -h {host} -f cifs":             "value \"2.55\"",
		"pminfo -h {host} -f cifs.fs.smbs":     `inst [0 or "\\a\b"] value 7`,
		"pminfo -h {host} -f pmimport.args":    `inst [0 or "sadc"] value "CPU,DISK"`,
		"pminfo -h {host} -d pmimport.archive": "Data Type: string  InDom: 43.0",
		"pminfo -h {host} -f pmimport":         "pmimport.zoneinfo\n    value ",
	} {
		o, err := d.Run(t.Context(), peer.Unix, words(command))
		if err != nil || !strings.Contains(o.Stdout, want) {
			t.Errorf("%s: %v\n%s\nwant %s", command, err, o, want)
		}
	}
	if log := d.Log(); strings.Count(log, "is built in: /nonexistent/") != len(lines) {
		t.Errorf("log:\n%s", log)
	}
}
