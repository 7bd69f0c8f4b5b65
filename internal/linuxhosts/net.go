package linuxhosts

import "fmt"

// Network returns a host with veths virtual interfaces, a bond of two cards,
// VLANs and tunnels. Names have all kinds of characters that the kernel permits.
func Network(k Kernel, veths int) Files {
	f := Files{}
	var dev, inet6, softnet text
	dev.line("Inter-|   Receive                                                |  Transmit")
	dev.line(" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed")
	names := []string{"lo", "eth0", "eth1", "bond0", "eth0.100", "bond0.4094@x", "enp0s31f6", "wlp3s0", "tun-a.b", "wg0", "ip6tnl0",
		"br-0123456789ab", "a\"b", `c\d`, "e%f#g!h", "schön", "x\x01y", "-"}
	for i := range veths {
		names = append(names, fmt.Sprintf("veth%07x", i))
	}
	for i, name := range names {
		fmt.Fprintf(&dev, "%6s:", name)
		for field := range 16 {
			n := Large*uint64(field+1) + uint64(i)
			if name == "bond0" {
				n = Huge - uint64(field)
			}
			fmt.Fprintf(&dev, " %7d", n)
		}
		dev.WriteByte('\n')
		// Scopes: of the host, link, site, compatible, global.
		scope := []int{0x10, 0x20, 0x40, 0x80, 0}[i%5]
		inet6.line("20010db8%024x %02x 40 %02x 80 %8s", i, i%256, scope, name)
	}
	for name, files := range map[string]Files{
		"eth0":     {"speed": "100000", "duplex": "full", "mtu": "9000", "flags": "0x1803", "operstate": "up", "type": "1", "address": "02:00:00:00:00:01"},
		"eth1":     {"speed": "-1", "duplex": "unknown", "mtu": "9000", "flags": "0x1803", "operstate": "down", "type": "1", "address": "02:00:00:00:00:02"},
		"bond0":    {"speed": "200000", "duplex": "full", "mtu": "9000", "flags": "0x1403", "operstate": "up", "type": "1"},
		"eth0.100": {"mtu": "1496", "flags": "0x1003", "operstate": "lowerlayerdown", "type": "1"},
		"lo":       {"mtu": "65536", "flags": "0x9", "operstate": "unknown", "type": "772", "address": "00:00:00:00:00:00"},
	} {
		for file, value := range files {
			f["sys/class/net/"+name+"/"+file] = value + "\n"
		}
	}
	f["sys/class/net/wlp3s0/wireless/"], f["sys/devices/virtual/net/bond0/"] = "", ""

	// A line for each of 256 CPUs. Newer kernels have more columns, at the end.
	columns := map[Kernel]int{Linux2_6_20: 9, Linux3_10: 11, Linux4_18: 11, Linux5_5: 11, Linux6_12: 15}[k]
	var cpus []int
	for cpu := range 256 {
		cpus = append(cpus, cpu)
		for i := range columns {
			n := uint32(cpu) + 1<<31*uint32(i%2)
			if i == 12 {
				n = uint32(cpu)
			}
			fmt.Fprintf(&softnet, "%08x ", n)
		}
		softnet.WriteByte('\n')
	}
	f["proc/stat"] = stat(cpus)
	f["proc/net/dev"], f["proc/net/if_inet6"], f["proc/net/softnet_stat"] = dev.String(), inet6.String(), softnet.String()

	f["proc/net/sockstat"] = "sockets: used 4294967\nTCP: inuse 5 orphan 1 tw 2 alloc 7 mem 3\nUDP: inuse 4 mem 6\nUDPLITE: inuse 8\nRAW: inuse 9\nFRAG: inuse 10 memory 11\n"
	f["proc/net/sockstat6"] = "TCP6: inuse 5\nUDP6: inuse 4\nUDPLITE6: inuse 3\nRAW6: inuse 2\nFRAG6: inuse 1 memory 6\n"
	f["proc/net/snmp"], f["proc/net/netstat"] = protocols(k)
	f["proc/net/snmp6"] = keyed("%-32s\t%d", snmp6, Large)
	return f
}

// protocols returns /proc/net/snmp and /proc/net/netstat.
func protocols(k Kernel) (snmp, netstat string) {
	ip, icmp, udp := "Forwarding DefaultTTL InReceives InHdrErrors InAddrErrors ForwDatagrams InUnknownProtos InDiscards InDelivers OutRequests OutDiscards OutNoRoutes ReasmTimeout ReasmReqds ReasmOKs ReasmFails FragOKs FragFails FragCreates",
		"InMsgs InErrors InDestUnreachs InTimeExcds InParmProbs InSrcQuenchs InRedirects InEchos InEchoReps InTimestamps InTimestampReps InAddrMasks InAddrMaskReps OutMsgs OutErrors OutDestUnreachs OutTimeExcds OutParmProbs OutSrcQuenchs OutRedirects OutEchos OutEchoReps OutTimestamps OutTimestampReps OutAddrMasks OutAddrMaskReps",
		"InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors"
	tcpExt, ipExt := tcpExt3, "InNoRoutes InTruncatedPkts InMcastPkts OutMcastPkts InBcastPkts OutBcastPkts InOctets OutOctets InMcastOctets OutMcastOctets InBcastOctets OutBcastOctets"
	if k >= Linux3_10 {
		ipExt += " InCsumErrors"
		udp += " InCsumErrors"
	}
	if k >= Linux5_5 {
		tcpExt = tcpExt5
		ipExt += " InNoECTPkts InECT1Pkts InECT0Pkts InCEPkts ReasmOverlaps"
		udp += " IgnoredMulti"
	}
	if k >= Linux6_12 {
		ip += " OutTransmits"
		udp += " MemErrors"
		tcpExt += " TCPPLBRehash TCPAORequired TCPAOBad TCPAOKeyNotFound TCPAOGood TCPAODroppedIcmps"
	}
	var s, n text
	s.columns("Ip", ip, Large)
	s.columns("Icmp", icmp, 2*Large)
	s.columns("IcmpMsg", "InType0 InType3 InType8 OutType3 OutType8 OutType255", 3*Large)
	s.line("Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors")
	s.line("Tcp: 1 200 120000 -1 %d 6 7 8 9 10 %d 12 13 14 15", uint64(Large), uint64(Huge))
	s.columns("Udp", udp, 4*Large)
	s.columns("UdpLite", udp, 5*Large)
	n.columns("TcpExt", tcpExt, Large)
	n.columns("IpExt", ipExt, Huge-100)
	if k >= Linux6_12 {
		n.columns("MPTcpExt", mptcpExt, 6*Large)
	}
	return s.String(), n.String()
}

// Names that the kernel writes, by its version.
const (
	tcpExt3 = `SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned OfoPruned OutOfWindowIcmps LockDroppedIcmps ArpFilter TW TWRecycled TWKilled PAWSPassive PAWSActive PAWSEstab DelayedACKs DelayedACKLocked DelayedACKLost ListenOverflows ListenDrops TCPPrequeued TCPDirectCopyFromBacklog TCPDirectCopyFromPrequeue TCPPrequeueDropped TCPHPHits TCPHPHitsToUser TCPPureAcks TCPHPAcks TCPRenoRecovery TCPSackRecovery TCPSACKReneging TCPFACKReorder TCPSACKReorder TCPRenoReorder TCPTSReorder TCPFullUndo TCPPartialUndo TCPDSACKUndo TCPLossUndo TCPLostRetransmit TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans TCPForwardRetrans TCPSlowStartRetrans TCPTimeouts TCPLossProbes TCPLossProbeRecovery TCPRenoRecoveryFail TCPSackRecoveryFail TCPSchedulerFailed TCPRcvCollapsed TCPDSACKOldSent TCPDSACKOfoSent TCPDSACKRecv TCPDSACKOfoRecv TCPAbortOnData TCPAbortOnClose TCPAbortOnMemory TCPAbortOnTimeout TCPAbortOnLinger TCPAbortFailed TCPMemoryPressures TCPSACKDiscard TCPDSACKIgnoredOld TCPDSACKIgnoredNoUndo TCPSpuriousRTOs TCPMD5NotFound TCPMD5Unexpected TCPSackShifted TCPSackMerged TCPSackShiftFallback TCPBacklogDrop TCPMinTTLDrop TCPDeferAcceptDrop IPReversePathFilter TCPTimeWaitOverflow TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPRcvCoalesce TCPOFOQueue TCPOFODrop TCPOFOMerge TCPChallengeACK TCPSYNChallenge TCPFastOpenActive TCPFastOpenPassive TCPFastOpenPassiveFail TCPFastOpenListenOverflow TCPFastOpenCookieReqd TCPSpuriousRtxHostQueues BusyPollRxPackets`
	tcpExt5 = `SyncookiesSent SyncookiesRecv SyncookiesFailed EmbryonicRsts PruneCalled RcvPruned OfoPruned OutOfWindowIcmps LockDroppedIcmps ArpFilter TW TWRecycled TWKilled PAWSActive PAWSEstab DelayedACKs DelayedACKLocked DelayedACKLost ListenOverflows ListenDrops TCPHPHits TCPPureAcks TCPHPAcks TCPRenoRecovery TCPSackRecovery TCPSACKReneging TCPSACKReorder TCPRenoReorder TCPTSReorder TCPFullUndo TCPPartialUndo TCPDSACKUndo TCPLossUndo TCPLostRetransmit TCPRenoFailures TCPSackFailures TCPLossFailures TCPFastRetrans TCPSlowStartRetrans TCPTimeouts TCPLossProbes TCPLossProbeRecovery TCPRenoRecoveryFail TCPSackRecoveryFail TCPRcvCollapsed TCPBacklogCoalesce TCPDSACKOldSent TCPDSACKOfoSent TCPDSACKRecv TCPDSACKOfoRecv TCPAbortOnData TCPAbortOnClose TCPAbortOnMemory TCPAbortOnTimeout TCPAbortOnLinger TCPAbortFailed TCPMemoryPressures TCPMemoryPressuresChrono TCPSACKDiscard TCPDSACKIgnoredOld TCPDSACKIgnoredNoUndo TCPSpuriousRTOs TCPMD5NotFound TCPMD5Unexpected TCPMD5Failure TCPSackShifted TCPSackMerged TCPSackShiftFallback TCPBacklogDrop PFMemallocDrop TCPMinTTLDrop TCPDeferAcceptDrop IPReversePathFilter TCPTimeWaitOverflow TCPReqQFullDoCookies TCPReqQFullDrop TCPRetransFail TCPRcvCoalesce TCPOFOQueue TCPOFODrop TCPOFOMerge TCPChallengeACK TCPSYNChallenge TCPFastOpenActive TCPFastOpenActiveFail TCPFastOpenPassive TCPFastOpenPassiveFail TCPFastOpenListenOverflow TCPFastOpenCookieReqd TCPFastOpenBlackhole TCPSpuriousRtxHostQueues BusyPollRxPackets TCPAutoCorking TCPFromZeroWindowAdv TCPToZeroWindowAdv TCPWantZeroWindowAdv TCPSynRetrans TCPOrigDataSent TCPHystartTrainDetect TCPHystartTrainCwnd TCPHystartDelayDetect TCPHystartDelayCwnd TCPACKSkippedSynRecv TCPACKSkippedPAWS TCPACKSkippedSeq TCPACKSkippedFinWait2 TCPACKSkippedTimeWait TCPACKSkippedChallenge TCPWinProbe TCPKeepAlive TCPMTUPFail TCPMTUPSuccess TCPDelivered TCPDeliveredCE TCPAckCompressed TCPZeroWindowDrop TCPRcvQDrop TCPWqueueTooBig TCPFastOpenPassiveAltKey TcpTimeoutRehash TcpDuplicateDataRehash TCPDSACKRecvSegs TCPDSACKIgnoredDubious TCPMigrateReqSuccess TCPMigrateReqFailure`

	mptcpExt = `MPCapableSYNRX MPCapableSYNTX MPCapableSYNACKRX MPCapableACKRX MPCapableFallbackACK MPCapableFallbackSYNACK MPCapableSYNTXDrop MPCapableSYNTXDisabled MPFallbackTokenInit MPTCPRetrans MPJoinNoTokenFound MPJoinSynRx MPJoinSynAckRx MPJoinSynAckHMacFailure MPJoinAckRx MPJoinAckHMacFailure DSSNotMatching InfiniteMapTx InfiniteMapRx DSSNoMatchTCP DataCsumErr OFOQueueTail OFOQueue OFOMerge NoDSSInWindow DuplicateData AddAddr AddAddrTx EchoAdd EchoAddTx PortAdd AddAddrDrop MPJoinPortSynRx MPJoinPortSynAckRx MPJoinPortAckRx MismatchPortSynRx MismatchPortAckRx RmAddr RmAddrDrop RmAddrTx RmSubflow MPPrioTx MPPrioRx MPFailTx MPFailRx MPFastcloseTx MPFastcloseRx MPRstTx MPRstRx RcvPruned SubflowStale SubflowRecover SndWndShared RcvWndShared RcvWndConflictUpdate RcvWndConflict MPCurrEstab`

	snmp6 = `Ip6InReceives Ip6InHdrErrors Ip6InTooBigErrors Ip6InNoRoutes Ip6InAddrErrors Ip6InUnknownProtos Ip6InTruncatedPkts Ip6InDiscards Ip6InDelivers Ip6OutForwDatagrams Ip6OutRequests Ip6OutDiscards Ip6OutNoRoutes Ip6ReasmTimeout Ip6ReasmReqds Ip6ReasmOKs Ip6ReasmFails Ip6FragOKs Ip6FragFails Ip6FragCreates Ip6InMcastPkts Ip6OutMcastPkts Ip6InOctets Ip6OutOctets Ip6InMcastOctets Ip6OutMcastOctets Ip6InBcastOctets Ip6OutBcastOctets Ip6InNoECTPkts Ip6InECT1Pkts Ip6InECT0Pkts Ip6InCEPkts Ip6OutTransmits Icmp6InMsgs Icmp6InErrors Icmp6OutMsgs Icmp6OutErrors Icmp6InCsumErrors Icmp6OutRateLimitHost Icmp6InDestUnreachs Icmp6InPktTooBigs Icmp6InTimeExcds Icmp6InParmProblems Icmp6InEchos Icmp6InEchoReplies Icmp6InGroupMembQueries Icmp6InGroupMembResponses Icmp6InGroupMembReductions Icmp6InRouterSolicits Icmp6InRouterAdvertisements Icmp6InNeighborSolicits Icmp6InNeighborAdvertisements Icmp6InRedirects Icmp6InMLDv2Reports Icmp6OutDestUnreachs Icmp6OutPktTooBigs Icmp6OutTimeExcds Icmp6OutParmProblems Icmp6OutEchos Icmp6OutEchoReplies Icmp6OutGroupMembQueries Icmp6OutGroupMembResponses Icmp6OutGroupMembReductions Icmp6OutRouterSolicits Icmp6OutRouterAdvertisements Icmp6OutNeighborSolicits Icmp6OutNeighborAdvertisements Icmp6OutRedirects Icmp6OutMLDv2Reports Icmp6InType135 Icmp6OutType133 Udp6InDatagrams Udp6NoPorts Udp6InErrors Udp6OutDatagrams Udp6RcvbufErrors Udp6SndbufErrors Udp6InCsumErrors Udp6IgnoredMulti Udp6MemErrors UdpLite6InDatagrams UdpLite6NoPorts UdpLite6InErrors UdpLite6OutDatagrams UdpLite6RcvbufErrors UdpLite6SndbufErrors UdpLite6InCsumErrors UdpLite6MemErrors`
)
