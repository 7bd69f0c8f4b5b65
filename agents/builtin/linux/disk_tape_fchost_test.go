package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestTapesAndFCHosts(t *testing.T) {
	r := newHarness(t, Options{Root: "testdata/storage"})
	// The order is that of the directory.
	if got := r.Values("tape.dev.in_flight"); got != "st0=1000 st10=2000" && got != "st10=2000 st0=1000" {
		t.Errorf("tape.dev.in_flight is %q", got)
	}
	r.Want(map[string]string{
		"hinv.ntape":             "2",
		"hinv.nfchost":           "1",
		"fchost.in.frames":       "host0=755",
		"fchost.in.bytes":        "host0=3024",
		"fchost.nos_count":       "host0=0", // the driver does not support it
		"fchost.dumped_frames":   "host0=762",
		"hinv.nfilesys":          "0",
		"network.icmpmsg.intype": "",
	})
	root := pmdatest.Tree(t, map[string]string{
		"sys/class/fc_host/host1/statistics/rx_words":  "0x4000000000000000\n",
		"sys/class/fc_host/host1/statistics/tx_words":  "12\n",
		"sys/class/fc_host/host1/statistics/lip_count": "0xg\n",
		"sys/class/fc_host/host2/x":                    "",
	})
	newHarness(t, Options{Root: root}).Want(map[string]string{
		"fchost.in.bytes": "host1=0", "fchost.out.bytes": "host1=48", "fchost.lip_count": "host1=0", "tape.dev.io_ns": "",
	})
}
