package linux

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/internal/testutil"
)

func TestRecordedSockets(t *testing.T) {
	r := newHarness(t, Options{Root: "testdata/vm"})
	r.Want(map[string]string{
		"network.sockstat.total":              "57",
		"network.sockstat.tcp.mem":            "61",
		"network.sockstat.tcp6.inuse":         "9",
		"network.softnet.processed":           "55843907",
		"network.softnet.percpu.processed":    "cpu0=27692139 cpu1=28151768",
		"network.softnet.percpu.time_squeeze": "cpu0=2 cpu1=1",
		"network.all.in.bytes":                "150572056",
		"network.all.total.bytes":             "151362297",
	})
}

func TestSockets(t *testing.T) {
	const head = "  sl  local_address rem_address   st tx_queue rx_queue\n"
	conn := func(states ...string) string {
		text := head
		for i, s := range states {
			text += fmt.Sprintf("%4d: 0100007F:8191 00000000:0000 %s 00000000:00000000 00:00000000 00000000     0        0 1660\n", i, s)
		}
		return text
	}
	root := pmdatest.Tree(t, map[string]string{
		"proc/net/tcp":  conn("01", "0A", "0a", "0B", "0C", "0D", "FF", "x", "06", "06"),
		"proc/net/tcp6": conn("02", "03", "04", "05", "07", "08", "09"),
		"proc/net/udp":  conn("01", "07", "07"),
		"proc/net/udp6": "0: 1 2\n 1: a b 07\n\n1 2 3 01", // malformed lines
		"proc/net/raw":  conn("07", "FF"),
		"proc/net/unix": "Num       RefCount Protocol Flags    Type St Inode Path\n" +
			"0: 00000002 00000000 00010000 0001 01 9383665 /run/a b\n" +
			"1: 00000003 00000000 00000000 0001 03 9383993\n2: 00000003 00000000 00000000 0001 04 9\n" +
			"3: 00000003 00000000 00000000 0002 01 9\n4: 00000003 00000000 00000000 0005 01 9\n5: 3 0 0 0001\n",
	})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"network.tcpconn.established":     "1",
		"network.tcpconn.listen":          "2",
		"network.tcpconn.closing":         "1",
		"network.tcpconn.time_wait":       "2",
		"network.tcpconn.close":           "0",
		"network.tcpconn6.syn_sent":       "1",
		"network.tcpconn6.syn_recv":       "1",
		"network.tcpconn6.fin_wait1":      "1",
		"network.tcpconn6.fin_wait2":      "1",
		"network.tcpconn6.close":          "1",
		"network.tcpconn6.close_wait":     "1",
		"network.tcpconn6.last_ack":       "1",
		"network.udpconn.established":     "1",
		"network.udpconn.listen":          "2",
		"network.udpconn6.established":    "1",
		"network.udpconn6.listen":         "1",
		"network.rawconn.count":           "2",
		"network.rawconn6.count":          "0",
		"network.unix.datagram.count":     "1",
		"network.unix.stream.count":       "3",
		"network.unix.stream.listen":      "1",
		"network.unix.stream.established": "1",
	})

	// More than a buffer, and more than the limit of other files.
	var all strings.Builder
	all.WriteString(head)
	line := conn("01")[len(head):]
	for range sysfile.MaxFile/len(line) + 1 {
		all.WriteString(line)
	}
	pmdatest.WriteFile(t, root, "proc/net/tcp", all.String())
	r.Want(map[string]string{"network.tcpconn.established": fmt.Sprint(sysfile.MaxFile/len(line) + 1)})
	pmdatest.WriteFile(t, root, "proc/net/tcp", strings.Repeat("x", sysfile.MaxLine))
	r.Want(map[string]string{"network.tcpconn.established": "file too large"})
}

// A file of sockets stays open, and each read starts at its beginning.
func TestSocketsOfThisHost(t *testing.T) {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		testutil.Missing(t, err)
	}
	s := newSockets(&host{Options: Options{Root: "/"}}, "tcp")
	defer s.file.Close()
	for range 3 {
		if err := s.source.Read(t.Context(), new(pmda.Request)); err != nil {
			t.Fatal(err)
		}
		sum := uint64(0)
		for _, n := range s.states {
			sum += n
		}
		if sum != s.total {
			t.Errorf("%d sockets, by states %v", s.total, s.states)
		}
	}
}
