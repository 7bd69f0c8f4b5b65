package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

func TestSockstat(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/net/sockstat":  "sockets: used 30\nTCP: inuse 5 orphan 1 tw 218 alloc 6 mem 57\nUDP: inuse 2\nNEW: x 1\n",
		"proc/net/sockstat6": "TCP6: inuse 3\nFRAG6: inuse 1 memory 2048\n",
	})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"network.sockstat.total":         "30",
		"network.sockstat.tcp.inuse":     "5",
		"network.sockstat.tcp.orphan":    "1",
		"network.sockstat.tcp.tw":        "218",
		"network.sockstat.tcp.alloc":     "6",
		"network.sockstat.tcp.mem":       "57",
		"network.sockstat.udp.mem":       "0",
		"network.sockstat.tcp6.inuse":    "3",
		"network.sockstat.frag6.memory":  "2048",
		"network.sockstat.udplite.inuse": "0",
	})
	pmdatest.WriteFile(t, root, "proc/net/sockstat", "TCP: inuse x\n")
	r.Want(map[string]string{"network.sockstat.tcp.inuse": pdu.ErrnoGeneric.Error(), "network.sockstat.tcp6.inuse": "3"})
}
