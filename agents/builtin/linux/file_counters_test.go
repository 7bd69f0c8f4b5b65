package linux

import (
	"testing"

	"github.com/gopcp/pmcd/agents/pmda/pmdatest"
)

func TestRecordedCounters(t *testing.T) {
	r := newHarness(t, Options{Root: "testdata/vm"})
	r.Want(map[string]string{
		"network.ip.forwarding":        "2",
		"network.ip.innoroutes":        "0",
		"network.tcp.rtomin":           "200",
		"network.tcp.maxconn":          "18446744073709551615",
		"network.udplite.indatagrams":  "0",
		"network.tcp.hphitstouser":     "", // removed in Linux 4.3
		"network.mptcp.mpcapablesynrx": "0",
	})
}

func TestCounters(t *testing.T) {
	root := pmdatest.Tree(t, map[string]string{
		"proc/net/snmp": "Ip: Forwarding DefaultTTL InReceives\nIp: 1 64 18446744073709551615\n" +
			"Icmp: InMsgs New InErrors\nIcmp: 7 8 9 10\n" +
			"IcmpMsg: InType0 InType3 InType256 OutType3 InTypex\nIcmpMsg: 1 2 3 4 5\n" +
			"Tcp: RtoMin MaxConn RtoMax ActiveOpens\nTcp: 200 5 x -7\n" +
			"Udp: InDatagrams NoPorts\nNew: 1 2\n" +
			"UdpLite: InDatagrams NoPorts\nUdpLite: 1",
		"proc/net/snmp6":   "Ip6InReceives                   \t5\nIp6New 6\n\nIp6InDelivers\nUdpLite6NoPorts x\nIp6OutRequests 8 9",
		"proc/net/netstat": "TcpExt: SyncookiesSent TCPFastOpenActiveFail\nTcpExt: 3 4\nIpExt: InOctets\nIpExt: 6\nMPTcpExt: OFOQueue\nMPTcpExt: 7\nTcpExt: TCPOFOQueue\nTcpExt:\n",
	})
	r := newHarness(t, Options{Root: root})
	r.Want(map[string]string{
		"network.ip.forwarding":             "1",
		"network.ip.inreceives":             "18446744073709551615",
		"network.ip.inhdrerrors":            "",
		"network.icmp.inmsgs":               "7",
		"network.icmp.inerrors":             "9",
		"network.icmpmsg.intype":            "Type0=1 Type3=2",
		"network.icmpmsg.outtype":           "Type3=4",
		"network.tcp.rtomin":                "200",
		"network.tcp.rtomax":                "",
		"network.tcp.activeopens":           "",
		"network.tcp.maxconn":               "5",
		"network.udp.indatagrams":           "", // the line of values is missing
		"network.udplite.indatagrams":       "1",
		"network.udplite.noports":           "",
		"network.ip6.inreceives":            "5",
		"network.ip6.indelivers":            "",
		"network.ip6.outrequests":           "8",
		"network.ip6.inoctets":              "0",
		"network.udplite6.noports":          "",
		"network.tcp.syncookiessent":        "3",
		"network.tcp.fastopenactivefail":    "4",
		"network.tcp.tcpfastopenactivefail": "4",
		"network.ip.inoctets":               "6",
		"network.mptcp.ofoqueue":            "7",
		"network.tcp.ofoqueue":              "",
	})
	// Numbers of an earlier read are not kept.
	for _, f := range []string{"snmp", "snmp6", "netstat"} {
		pmdatest.WriteFile(t, root, "proc/net/"+f, "")
	}
	r.Want(map[string]string{
		"network.ip.forwarding":      "",
		"network.icmpmsg.intype":     "",
		"network.tcp.maxconn":        "18446744073709551615",
		"network.ip6.inreceives":     "0",
		"network.tcp.syncookiessent": "",
	})
}
