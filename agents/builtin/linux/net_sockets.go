package linux

import (
	"context"
	"slices"

	"github.com/gopcp/pmcd/agents/builtin/internal/sysfile"
	"github.com/gopcp/pmcd/agents/pmda"
)

// sockets counts the sockets in a file of /proc/net by their states. As in C, the
// counts are 0 without the file, for instance without IPv6.
//
//	sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
//	 0: 0100007F:8191 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 9383670 2 00000000af4738c7 100 0 0 10 0
type sockets struct {
	file   *sysfile.File
	source *pmda.Source
	total  uint64
	states [16]uint64
}

func newSockets(h *host, name string) *sockets {
	s := &sockets{file: h.netFile(name)}
	s.source = &pmda.Source{Read: func(_ context.Context, r *pmda.Request) error {
		return s.file.Lines(s.begin, func(b []byte) error {
			s.line(b)
			return r.Err()
		})
	}}
	return s
}

func (s *sockets) begin() {
	s.total = 0
	clear(s.states[:])
}

func (s *sockets) line(line []byte) {
	for range 3 {
		_, line = sysfile.Field(line)
	}
	word, _ := sysfile.Field(line)
	state, ok := sysfile.Hex(word)
	if !ok {
		return // the header line
	}
	s.total++
	if state < uint64(len(s.states)) {
		s.states[state]++
	}
}

// inState returns a FetchFunc for the number of sockets in a state.
func (s *sockets) inState(state int) pmda.FetchFunc {
	return pmda.FromUint(func() (uint64, bool) { return s.states[state], true })
}

// The states of net/tcp_states.h.
const (
	established = iota + 1
	synSent
	synRecv
	finWait1
	finWait2
	timeWait
	closed
	closeWait
	lastACK
	listen
	closing
)

func socketMetrics(h *host) []pmda.Metric {
	return slices.Concat(
		tcpMetrics(19, "network.tcpconn", newSockets(h, "tcp")),
		tcpMetrics(76, "network.tcpconn6", newSockets(h, "tcp6")),
		rawMetrics(77, "network.rawconn", newSockets(h, "raw")),
		rawMetrics(78, "network.rawconn6", newSockets(h, "raw6")),
		udpMetrics(79, "network.udpconn", newSockets(h, "udp")),
		udpMetrics(80, "network.udpconn6", newSockets(h, "udp6")),
		newUnixSockets(h).metrics(),
	)
}

func tcpMetrics(cluster int, name string, s *sockets) []pmda.Metric {
	return table(pmda.Metric{Source: s.source}, []row{
		{cluster, 1, name + ".established", u32, instant, count, s.inState(established)},
		{cluster, 2, name + ".syn_sent", u32, instant, count, s.inState(synSent)},
		{cluster, 3, name + ".syn_recv", u32, instant, count, s.inState(synRecv)},
		{cluster, 4, name + ".fin_wait1", u32, instant, count, s.inState(finWait1)},
		{cluster, 5, name + ".fin_wait2", u32, instant, count, s.inState(finWait2)},
		{cluster, 6, name + ".time_wait", u32, instant, count, s.inState(timeWait)},
		{cluster, 7, name + ".close", u32, instant, count, s.inState(closed)},
		{cluster, 8, name + ".close_wait", u32, instant, count, s.inState(closeWait)},
		{cluster, 9, name + ".last_ack", u32, instant, count, s.inState(lastACK)},
		{cluster, 10, name + ".listen", u32, instant, count, s.inState(listen)},
		{cluster, 11, name + ".closing", u32, instant, count, s.inState(closing)},
	})
}

// udpMetrics returns the metrics of UDP sockets. The kernel gives connected sockets
// the state of established TCP connections, and others that of closed ones.
func udpMetrics(cluster int, name string, s *sockets) []pmda.Metric {
	return table(pmda.Metric{Source: s.source}, []row{
		{cluster, 1, name + ".established", u32, instant, count, s.inState(established)},
		{cluster, 2, name + ".listen", u32, instant, count, s.inState(closed)},
	})
}

func rawMetrics(cluster int, name string, s *sockets) []pmda.Metric {
	return table(pmda.Metric{Source: s.source}, []row{
		{cluster, 1, name + ".count", u32, instant, count, pmda.FromUint(func() (uint64, bool) { return s.total, true })},
	})
}

// unixSockets reads /proc/net/unix, proc(5).
//
//	Num       RefCount Protocol Flags    Type St Inode Path
//	000000000aedffd1: 00000002 00000000 00010000 0001 01 9383665 /run/sock
type unixSockets struct {
	file                                     *sysfile.File
	datagram, stream, listening, established uint64
}

func newUnixSockets(h *host) *unixSockets { return &unixSockets{file: h.netFile("unix")} }

func (u *unixSockets) begin() { *u = unixSockets{file: u.file} }

func (u *unixSockets) line(line []byte) {
	for range 4 {
		_, line = sysfile.Field(line)
	}
	word, line := sysfile.Field(line)
	typ, ok1 := sysfile.Hex(word)
	word, _ = sysfile.Field(line)
	state, ok2 := sysfile.Hex(word)
	if !ok1 || !ok2 {
		return
	}
	switch typ {
	case 1: // SOCK_STREAM
		u.stream++
		switch state { // of linux/net.h
		case 1: // SS_UNCONNECTED
			u.listening++
		case 3: // SS_CONNECTED
			u.established++
		}
	case 2: // SOCK_DGRAM
		u.datagram++
	}
}

func (u *unixSockets) metrics() []pmda.Metric {
	value := func(n *uint64) pmda.FetchFunc { return pmda.FromUint(func() (uint64, bool) { return *n, true }) }
	source := &pmda.Source{Read: func(_ context.Context, r *pmda.Request) error {
		return u.file.Lines(u.begin, func(b []byte) error {
			u.line(b)
			return r.Err()
		})
	}}
	return table(pmda.Metric{Source: source}, []row{
		{81, 1, "network.unix.datagram.count", u32, instant, count, value(&u.datagram)},
		{81, 2, "network.unix.stream.established", u32, instant, count, value(&u.established)},
		{81, 3, "network.unix.stream.listen", u32, instant, count, value(&u.listening)},
		{81, 4, "network.unix.stream.count", u32, instant, count, value(&u.stream)},
	})
}
