package linux

import (
	"context"
	"fmt"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// snmpMetrics returns the metrics of /proc/net/snmp: the counters of RFC 2011, 2012
// and 2013, and some others.
func snmpMetrics(h *host) []pmda.Metric {
	c := newCounters(h.netFile("snmp").NeverBlocks(0), (*counters).parseColumns)
	ip, icmp, tcp, udp, udplite := c.group("Ip:"), c.group("Icmp:"), c.group("Tcp:"), c.group("Udp:"), c.group("UdpLite:")
	limit := c.number("Tcp:", "MaxConn")
	// The kernel has -1 if there is no limit.
	maxConn := pmda.FromUint(func() (uint64, bool) {
		if !limit.ok {
			return 1<<64 - 1, true
		}
		return limit.n, true
	})
	return append(table(pmda.Metric{Source: c.source}, []row{
		{14, 0, "network.ip.forwarding", u64, counter, count, ip("Forwarding")},
		{14, 1, "network.ip.defaultttl", u64, counter, count, ip("DefaultTTL")},
		{14, 2, "network.ip.inreceives", u64, counter, count, ip("InReceives")},
		{14, 3, "network.ip.inhdrerrors", u64, counter, count, ip("InHdrErrors")},
		{14, 4, "network.ip.inaddrerrors", u64, counter, count, ip("InAddrErrors")},
		{14, 5, "network.ip.forwdatagrams", u64, counter, count, ip("ForwDatagrams")},
		{14, 6, "network.ip.inunknownprotos", u64, counter, count, ip("InUnknownProtos")},
		{14, 7, "network.ip.indiscards", u64, counter, count, ip("InDiscards")},
		{14, 8, "network.ip.indelivers", u64, counter, count, ip("InDelivers")},
		{14, 9, "network.ip.outrequests", u64, counter, count, ip("OutRequests")},
		{14, 10, "network.ip.outdiscards", u64, counter, count, ip("OutDiscards")},
		{14, 11, "network.ip.outnoroutes", u64, counter, count, ip("OutNoRoutes")},
		{14, 12, "network.ip.reasmtimeout", u64, counter, count, ip("ReasmTimeout")},
		{14, 13, "network.ip.reasmreqds", u64, counter, count, ip("ReasmReqds")},
		{14, 14, "network.ip.reasmoks", u64, counter, count, ip("ReasmOKs")},
		{14, 15, "network.ip.reasmfails", u64, counter, count, ip("ReasmFails")},
		{14, 16, "network.ip.fragoks", u64, counter, count, ip("FragOKs")},
		{14, 17, "network.ip.fragfails", u64, counter, count, ip("FragFails")},
		{14, 18, "network.ip.fragcreates", u64, counter, count, ip("FragCreates")},
		{14, 96, "network.ip.outtransmits", u64, counter, count, ip("OutTransmits")},

		{14, 20, "network.icmp.inmsgs", u64, counter, count, icmp("InMsgs")},
		{14, 21, "network.icmp.inerrors", u64, counter, count, icmp("InErrors")},
		{14, 22, "network.icmp.indestunreachs", u64, counter, count, icmp("InDestUnreachs")},
		{14, 23, "network.icmp.intimeexcds", u64, counter, count, icmp("InTimeExcds")},
		{14, 24, "network.icmp.inparmprobs", u64, counter, count, icmp("InParmProbs")},
		{14, 25, "network.icmp.insrcquenchs", u64, counter, count, icmp("InSrcQuenchs")},
		{14, 26, "network.icmp.inredirects", u64, counter, count, icmp("InRedirects")},
		{14, 27, "network.icmp.inechos", u64, counter, count, icmp("InEchos")},
		{14, 28, "network.icmp.inechoreps", u64, counter, count, icmp("InEchoReps")},
		{14, 29, "network.icmp.intimestamps", u64, counter, count, icmp("InTimestamps")},
		{14, 30, "network.icmp.intimestampreps", u64, counter, count, icmp("InTimestampReps")},
		{14, 31, "network.icmp.inaddrmasks", u64, counter, count, icmp("InAddrMasks")},
		{14, 32, "network.icmp.inaddrmaskreps", u64, counter, count, icmp("InAddrMaskReps")},
		{14, 33, "network.icmp.outmsgs", u64, counter, count, icmp("OutMsgs")},
		{14, 34, "network.icmp.outerrors", u64, counter, count, icmp("OutErrors")},
		{14, 35, "network.icmp.outdestunreachs", u64, counter, count, icmp("OutDestUnreachs")},
		{14, 36, "network.icmp.outtimeexcds", u64, counter, count, icmp("OutTimeExcds")},
		{14, 37, "network.icmp.outparmprobs", u64, counter, count, icmp("OutParmProbs")},
		{14, 38, "network.icmp.outsrcquenchs", u64, counter, count, icmp("OutSrcQuenchs")},
		{14, 39, "network.icmp.outredirects", u64, counter, count, icmp("OutRedirects")},
		{14, 40, "network.icmp.outechos", u64, counter, count, icmp("OutEchos")},
		{14, 41, "network.icmp.outechoreps", u64, counter, count, icmp("OutEchoReps")},
		{14, 42, "network.icmp.outtimestamps", u64, counter, count, icmp("OutTimestamps")},
		{14, 43, "network.icmp.outtimestampreps", u64, counter, count, icmp("OutTimestampReps")},
		{14, 44, "network.icmp.outaddrmasks", u64, counter, count, icmp("OutAddrMasks")},
		{14, 45, "network.icmp.outaddrmaskreps", u64, counter, count, icmp("OutAddrMaskReps")},
		{14, 46, "network.icmp.incsumerrors", u64, counter, count, icmp("InCsumErrors")},
		{14, 94, "network.icmp.outratelimitglobal", u64, counter, count, icmp("OutRateLimitGlobal")},
		{14, 95, "network.icmp.outratelimithost", u64, counter, count, icmp("OutRateLimitHost")},

		{14, 50, "network.tcp.rtoalgorithm", u64, instant, none, tcp("RtoAlgorithm")},
		{14, 51, "network.tcp.rtomin", u64, instant, msec, tcp("RtoMin")},
		{14, 52, "network.tcp.rtomax", u64, instant, msec, tcp("RtoMax")},
		{14, 54, "network.tcp.activeopens", u64, counter, count, tcp("ActiveOpens")},
		{14, 55, "network.tcp.passiveopens", u64, counter, count, tcp("PassiveOpens")},
		{14, 56, "network.tcp.attemptfails", u64, counter, count, tcp("AttemptFails")},
		{14, 57, "network.tcp.estabresets", u64, counter, count, tcp("EstabResets")},
		{14, 58, "network.tcp.currestab", u64, instant, none, tcp("CurrEstab")},
		{14, 59, "network.tcp.insegs", u64, counter, count, tcp("InSegs")},
		{14, 60, "network.tcp.outsegs", u64, counter, count, tcp("OutSegs")},
		{14, 61, "network.tcp.retranssegs", u64, counter, count, tcp("RetransSegs")},
		{14, 62, "network.tcp.inerrs", u64, counter, count, tcp("InErrs")},
		{14, 63, "network.tcp.outrsts", u64, counter, count, tcp("OutRsts")},
		{14, 64, "network.tcp.incsumerrors", u64, counter, count, tcp("InCsumErrors")},
		{14, 53, "network.tcp.maxconn", u64, instant, none, maxConn},

		{14, 70, "network.udp.indatagrams", u64, counter, count, udp("InDatagrams")},
		{14, 71, "network.udp.noports", u64, counter, count, udp("NoPorts")},
		{14, 72, "network.udp.inerrors", u64, counter, count, udp("InErrors")},
		{14, 74, "network.udp.outdatagrams", u64, counter, count, udp("OutDatagrams")},
		{14, 75, "network.udp.recvbuferrors", u64, counter, count, udp("RcvbufErrors")},
		{14, 76, "network.udp.sndbuferrors", u64, counter, count, udp("SndbufErrors")},
		{14, 83, "network.udp.incsumerrors", u64, counter, count, udp("InCsumErrors")},
		{14, 90, "network.udp.ignoredmulti", u64, counter, count, udp("IgnoredMulti")},
		{14, 91, "network.udp.memerrors", u64, counter, count, udp("MemErrors")},

		{14, 77, "network.udplite.indatagrams", u64, counter, count, udplite("InDatagrams")},
		{14, 78, "network.udplite.noports", u64, counter, count, udplite("NoPorts")},
		{14, 79, "network.udplite.inerrors", u64, counter, count, udplite("InErrors")},
		{14, 80, "network.udplite.outdatagrams", u64, counter, count, udplite("OutDatagrams")},
		{14, 81, "network.udplite.recvbuferrors", u64, counter, count, udplite("RcvbufErrors")},
		{14, 82, "network.udplite.sndbuferrors", u64, counter, count, udplite("SndbufErrors")},
		{14, 84, "network.udplite.incsumerrors", u64, counter, count, udplite("InCsumErrors")},
		{14, 92, "network.udplite.ignoredmulti", u64, counter, count, udplite("IgnoredMulti")},
		{14, 93, "network.udplite.memerrors", u64, counter, count, udplite("MemErrors")},
	}), icmpTypes(c)...)
}

// icmpTypes returns the metrics of ICMP messages by type. The file has the types
// that have occurred, as InType3 and OutType3.
func icmpTypes(c *counters) []pmda.Metric {
	var types [256]struct{ in, out *optionalUint }
	instances := make(pmda.List, len(types))
	for i := range types {
		instances[i] = pdu.Inst{ID: int32(i), Name: fmt.Sprint("Type", i)}
		types[i].in = c.number("IcmpMsg:", fmt.Sprint("InType", i))
		types[i].out = c.number("IcmpMsg:", fmt.Sprint("OutType", i))
	}
	in := func(_ context.Context, v *pmda.Value) error {
		if f := types[v.Index()].in; f.ok {
			v.SetUint(f.n)
		}
		return nil
	}
	out := func(_ context.Context, v *pmda.Value) error {
		if f := types[v.Index()].out; f.ok {
			v.SetUint(f.n)
		}
		return nil
	}
	indom := &pmda.InDom{Serial: indomICMPType, Insts: instances}
	return table(pmda.Metric{InDom: indom, Source: c.source}, []row{
		{14, 88, "network.icmpmsg.intype", u64, counter, count, in},
		{14, 89, "network.icmpmsg.outtype", u64, counter, count, out},
	})
}
