package diag

import (
	"log/slog"
	"strings"
	"sync/atomic"

	"github.com/gopcp/pmcd/internal/logtext"
	"github.com/gopcp/pmcd/pdu"
)

// Debug options that have an effect (pmcd(1), DEBUGGING OPTIONS; -D, pmcd.control.debug).
// docs/logging.md describes them. pmcd accepts the other options of PCP, which have no
// effect.
const (
	DebugPDU DebugOption = 1 << iota
	DebugPMNS
	DebugConfig
	DebugAccess
	DebugAuth
	DebugAttr
	DebugLabels
	DebugOps     // PDU level operations
	DebugRules   // access rules from the configuration
	DebugClients // connections and disconnections
	DebugAgents  // times of the configuration, starts of agents
	DebugState   // changes of state of pmcd and of agents
)

// A DebugOption is a set of debug options.
type DebugOption uint32

// optionsByName has the options that have an effect. appl5 is for attributes, as in C pmcd.
var optionsByName = map[string]DebugOption{
	"pdu": DebugPDU, "pmns": DebugPMNS, "config": DebugConfig, "access": DebugAccess,
	"auth": DebugAuth, "attr": DebugAttr, "labels": DebugLabels,
	"appl0": DebugOps, "appl1": DebugRules, "appl3": DebugClients,
	"appl4": DebugAgents, "appl5": DebugAttr, "appl6": DebugState,
}

// DebugOptions returns the options with these names, which commas separate.
// Options without effect are left out.
func DebugOptions(names string) (options DebugOption) {
	for name := range strings.SplitSeq(names, ",") {
		options |= optionsByName[name]
	}
	return options
}

// A Debug is the debug options that are on. Its methods may be called by
// several goroutines at a time.
type Debug struct {
	log   *slog.Logger
	names atomic.Pointer[string]
	on    atomic.Uint32
}

// NewDebug returns a Debug that logs to log. The options with these names are on.
func NewDebug(names string, log *slog.Logger) *Debug {
	g := &Debug{log: log}
	g.Set(names)
	return g
}

// Set makes names, separated by commas, the options that are on.
func (g *Debug) Set(names string) {
	g.names.Store(&names)
	g.on.Store(uint32(DebugOptions(names)))
}

// Names returns the options that were set, including those without effect.
func (g *Debug) Names() string { return *g.names.Load() }

// Shows reports whether one of some options is on.
func (g *Debug) Shows(some DebugOption) bool { return DebugOption(g.on.Load())&some != 0 }

// Log logs a message if one of some options is on. Message and attrs are as for a
// [slog.Logger].
func (g *Debug) Log(some DebugOption, message string, attrs ...any) {
	if g.Shows(some) {
		g.log.Info(message, attrs...)
	}
}

// PDU logs a PDU that was received from peer, or is about to be sent to it: all
// of it with the option pdu, one line without. Peer names attrs.
func (g *Debug) PDU(sent bool, b []byte, peer string, attrs ...any) {
	way := "from"
	if sent {
		way = "to"
	}
	if g.Shows(DebugPDU) {
		attrs = append(attrs, "dump", logtext.Lines(strings.TrimSuffix(string(pdu.AppendDump(nil, b)), "\n")))
		g.log.Info(way+" "+peer+": {dump}", attrs...)
		return
	}
	n, t, _ := pdu.Header(b)
	attrs = append(attrs, "type", t, "length", n)
	g.log.Info(way+" "+peer+": {type} len={length}", attrs...)
}
