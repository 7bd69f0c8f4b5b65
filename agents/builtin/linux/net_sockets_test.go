package linux

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
	"github.com/gopcp/pmcd/pdu"
)

func TestRecordedSockets(t *testing.T) {
	r := newRig(t, Options{Root: "testdata/vm"})
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

// The files of this test are composed.
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
		"proc/net/udp6": "0: 1 2\n 1: a b 07\n\n1 2 3 01", // broken lines
		"proc/net/raw":  conn("07", "FF"),
		"proc/net/unix": "Num       RefCount Protocol Flags    Type St Inode Path\n" +
			"0: 00000002 00000000 00010000 0001 01 9383665 /run/a b\n" +
			"1: 00000003 00000000 00000000 0001 03 9383993\n2: 00000003 00000000 00000000 0001 04 9\n" +
			"3: 00000003 00000000 00000000 0002 01 9\n4: 00000003 00000000 00000000 0005 01 9\n5: 3 0 0 0001\n",
	})
	r := newRig(t, Options{Root: root})
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

	// More than a buffer, and more than any other file may have.
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

// A file of sockets stays open, and is read from its beginning each time.
func TestSocketsOfThisHost(t *testing.T) {
	if _, err := os.Stat("/proc/net/tcp"); err != nil {
		t.Skip(err)
	}
	s := newSockets(&host{Options: Options{Root: "/"}}, "tcp")
	defer s.file.Close()
	for range 3 {
		if err := s.source.Read(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		sum := uint64(0)
		for _, n := range s.states {
			sum += n
		}
		if sum != s.all {
			t.Errorf("%d sockets, of which %v", s.all, s.states)
		}
	}
}

func TestSockstat(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/net/sockstat":  "sockets: used 30\nTCP: inuse 5 orphan 1 tw 218 alloc 6 mem 57\nUDP: inuse 2\nNEW: x 1\n",
		"proc/net/sockstat6": "TCP6: inuse 3\nFRAG6: inuse 1 memory 2048\n",
	})
	r := newRig(t, Options{Root: root})
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

func TestSoftnet(t *testing.T) {
	const absent = "metric not supported by this version of the application"
	root := pmdatest.Tree(t, map[string]string{"proc/stat": "cpu 3 0 0 0\ncpu0 1 0 0 0\ncpu2 2 0 0 0\n"}) // cpu1 is offline
	r := newRig(t, Options{Root: root})
	for _, tt := range []struct{ text, processed, percpu, rps, flow, percpuFlow string }{
		{"000000ff 1 2 0 0 0 0 0 3 4 5 6 00000002 0 0\n1 1 2 0 0 0 0 0 3 4 7 6 00000000 0 0\n", "256", "cpu0=1 cpu2=255", "8", "12", "cpu0=7 cpu2=5"},
		{"1 1 2 0 0 0 0 0 3 4 5\n2 1 2 0 0 0 0 0 3 4 6\n", "3", "cpu0=1 cpu2=2", "8", "11", "cpu0=5 cpu2=6"},
		{"1 1 2 0 0 0 0 0 3 4\n2 1 2 0 0 0 0 0 3 4\n9 9 9 9 9 9 9 9 9 9\n", "12", "cpu0=1 cpu2=2", "17", absent, absent},
		{"1 1 2 0 0 0 0 0 3\n", "1", "cpu0=1", absent, absent, absent},
		{"1 1 2 0 0 0 0 0 3 4 5 6 ffffffff\n", "1", absent, "4", "5", absent},
		{"1 2 3\n", pdu.ErrnoGeneric.Error(), pdu.ErrnoGeneric.Error(), pdu.ErrnoGeneric.Error(), pdu.ErrnoGeneric.Error(), pdu.ErrnoGeneric.Error()},
		{"", absent, absent, absent, absent, absent},
	} {
		pmdatest.WriteFile(t, root, "proc/net/softnet_stat", tt.text)
		t.Log(tt.text)
		r.Want(map[string]string{
			"network.softnet.processed":               tt.processed,
			"network.softnet.percpu.processed":        tt.percpu,
			"network.softnet.received_rps":            tt.rps,
			"network.softnet.flow_limit_count":        tt.flow,
			"network.softnet.percpu.flow_limit_count": tt.percpuFlow,
		})
	}
}

func TestPhysicalInterfaces(t *testing.T) {
	const dev = "lo:1 1 1 1 0 0 0 0 1 1 1 1 0 0 0 0\nbond0:2 2 2 2 0 0 0 0 2 2 2 2 0 0 0 0\neth0: 10 20 30 40 0 0 0 0 50 60 70 80 0 0 0 0\nbond: 100 200 300 400 0 0 0 0 500 600 700 800 0 0 0 0\nveth7: 1000 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	root := pmdatest.Tree(t, map[string]string{"proc/net/dev": dev})
	for _, tt := range []struct{ conf, in, total string }{
		{"none", "1110", "1660"},
		{"# lo\n^(lo | # no\n bond[0-9]* |\n\tveth[0-9]+)$\n", "10", "60"},
		{"eth0", "1103", "1606"},
		{"\n# nothing\n", "1110", "1660"},
		{"(", "1110", "1660"},
	} {
		dir := t.TempDir()
		if tt.conf != "none" {
			pmdatest.WriteFile(t, dir, "linux/interfaces.conf", tt.conf)
		}
		r := newRig(t, Options{Root: root, ConfDir: dir})
		r.Want(map[string]string{"network.all.in.bytes": tt.in, "network.all.total.bytes": tt.total})
	}

	// One whose number is broken would make the sum go back.
	pmdatest.WriteFile(t, root, "proc/net/dev", dev+"eth1: x 5 0 0 0 0 0 0 7 0 0 0 0 0 0 0\n")
	r := newRig(t, Options{Root: root})
	r.Want(map[string]string{"network.all.in.bytes": "", "network.all.total.bytes": "", "network.all.in.packets": "225", "network.all.out.bytes": "557"})
	if err := os.Remove(filepath.Join(root, "proc/net/dev")); err != nil {
		t.Fatal(err)
	}
	r.Want(map[string]string{"network.all.in.bytes": "0"})
}
