package daemon

import (
	"fmt"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/gopcp/pmcd/pdu"
)

// Debug options that show something (pmcd(1), DEBUGGING OPTIONS; -D,
// pmcd.control.debug). docs/logging.md says what. The others of PCP are known
// and show nothing.
const (
	debugPDU debugOption = 1 << iota
	debugPMNS
	debugConfig
	debugAccess
	debugAuth
	debugAttr
	debugLabels
	debugOps     // PDU level operations
	debugRules   // access rules from the configuration
	debugClients // connections and disconnections
	debugAgents  // times of the configuration, starts of agents
	debugState   // changes of state of pmcd and of agents
)

type debugOption uint32

// debugOptions are the options by name. appl5 of C pmcd is about attributes.
var debugOptions = map[string]debugOption{
	"pdu": debugPDU, "pmns": debugPMNS, "config": debugConfig, "access": debugAccess,
	"auth": debugAuth, "attr": debugAttr, "labels": debugLabels,
	"appl0": debugOps, "appl1": debugRules, "appl3": debugClients,
	"appl4": debugAgents, "appl5": debugAttr, "appl6": debugState,
}

// A debug is the debug options that are on.
type debug struct {
	log   *zap.Logger
	names atomic.Pointer[string] // all that were asked for
	on    atomic.Uint32
}

// set makes names, separated by commas, the options that are on.
func (g *debug) set(names string) {
	var on debugOption
	for name := range strings.SplitSeq(names, ",") {
		on |= debugOptions[name]
	}
	g.names.Store(&names)
	g.on.Store(uint32(on))
}

// shows reports whether one of some options is on.
func (g *debug) shows(some debugOption) bool { return debugOption(g.on.Load())&some != 0 }

// printf logs a message if one of some options is on.
func (g *debug) printf(some debugOption, format string, args ...any) {
	if g.shows(some) {
		g.log.Info(fmt.Sprintf(format, args...))
	}
}

// pdu shows a PDU to or from who.
func (g *debug) pdu(sent bool, who string, b []byte) {
	way := "from"
	if sent {
		way = "to"
	}
	if g.shows(debugPDU) {
		g.log.Info(strings.TrimSuffix(string(pdu.AppendDump(fmt.Appendf(nil, "%s %s: ", way, who), b)), "\n"))
		return
	}
	n, t, _ := pdu.Header(b)
	g.log.Info(fmt.Sprintf("%s %s: %v len=%d", way, who, t, n))
}

// tapping reports whether anybody wants to see PDUs.
func (d *Daemon) tapping() bool {
	return d.debug.shows(debugPDU|debugOps) || d.trace.on(tracePDUs)
}

// tapped shows the PDUs of a client to those who want to see them; there may be
// two in what is sent.
func (s *session) tapped(sent bool, b []byte) {
	d := s.d
	if !d.tapping() {
		return
	}
	show := d.debug.shows(debugPDU | debugOps)
	for len(b) >= pdu.HeaderLen {
		n, _, _ := pdu.Header(b)
		one := b[:min(max(int(n), pdu.HeaderLen), len(b))]
		b = b[len(one):]
		d.trace.pdu(sent, s.line.number(), one)
		if show {
			d.debug.pdu(sent, fmt.Sprintf("client[%d]", s.num), one)
		}
	}
}

// tap shows the PDUs of an agent; before it is connected nobody knows its
// descriptors.
func (d *Daemon) tap(a *agent) func(sent bool, b []byte) {
	return func(sent bool, b []byte) {
		if d.trace.on(tracePDUs) {
			fd := -1
			if l := a.conn.Load(); l != nil && sent {
				fd = l.Out
			} else if l != nil {
				fd = l.In
			}
			d.trace.pdu(sent, fd, b)
		}
		if d.debug.shows(debugPDU | debugOps) {
			d.debug.pdu(sent, fmt.Sprintf("agent %q", a.name()), b)
		}
	}
}

// debugAuth shows what a client may do that has stated who it is.
func (s *session) debugAuth() {
	if s.d.debug.shows(debugAuth) {
		user := "unknown"
		if s.peer.HasUser {
			user = fmt.Sprintf("%d, group %d", s.peer.UID, s.peer.GID)
		}
		s.d.debug.printf(debugAuth, "client[%d] %s is user %s; denied: %s", s.num, s.addr, user, deniedText(s))
	}
}

// debugAccess shows what the rules for hosts make of a client.
func (s *session) debugAccess(refusal pdu.Errno) {
	if s.d.debug.shows(debugAccess) {
		text := "admitted, denied: " + deniedText(s)
		if refusal < 0 {
			text = "refused"
		}
		s.d.debug.printf(debugAccess, "client[%d] %s: %s", s.num, s.addr, text)
	}
}

func deniedText(s *session) string {
	if op := s.denied(); op != 0 {
		return op.String()
	}
	return "nothing"
}

// stateNames are the state changes that clients are told of (PMCD_* of
// pmapi.h).
var stateNames = [...]string{"ADD_AGENT", "RESTART_AGENT", "DROP_AGENT", "LABEL_CHANGE", "NAMES_CHANGE", "HOSTNAME_CHANGE"}

func stateText(bits int32) string {
	var list []string
	for i, name := range stateNames {
		if bits&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, "+")
}
