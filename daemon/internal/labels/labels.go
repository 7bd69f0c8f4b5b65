// Package labels has what clients learn of the host: the context labels that are the same
// for all clients, and the name of the host.
//
// The labels are those of the label files, and pmcd's own: hostname, domainname and
// machineid. The labels of a client, such as userid, are the caller's.
package labels

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
)

// A Config is the configuration of a Host. All functions and pointers must be set.
type Config struct {
	Dir  string             // with labels and labels.conf ($PCP_SYSCONF_DIR); "" is none
	List []hostlabels.Label // the labels by name if there is no Dir

	// Hostname returns the name of this host (os.Hostname).
	Hostname func() (string, error)
	// HostnameEvery is how often the name of this host is checked; 0 is
	// DefaultHostnameEvery.
	HostnameEvery time.Duration

	Log     *slog.Logger
	Limiter *diag.LogLimiter
	Debug   *diag.Debug
}

// A request for context labels reads the files, so that a client sees a change with its
// next request. A client can send such requests faster than files can be read, and a
// request reads while others wait. So reads are rate-limited by a token bucket, whose tokens
// are time: it holds readBurst, and a read takes what it costs. While it is overdrawn, a
// request gets what was read last. The cost is that of what was read, not a measured time,
// which would be longer on a busy host. Measured: one small file is read in 46 µs (a cost of
// 11 ms), 1000 small ones in 11 ms (1 s), ten of 58 kB with 5000 labels each in 69 ms (2 s).
const (
	readBurst    = 200 * time.Millisecond
	readCost     = 10 * time.Millisecond // of each read
	readCostFile = time.Millisecond      // of each label file
	readCostKB   = 4 * time.Millisecond  // of each 1024 bytes of them
)

// A Host has the labels of this host as they were last read, and its name. Any goroutine may
// call its methods.
type Host struct {
	cfg  Config
	load func(warn func(error)) ([]hostlabels.Label, hostlabels.Size, error)
	name hostname

	last atomic.Pointer[state] // nil before files were read

	// reading guards full. It is held while files are read, but requests do not wait for
	// it if there is a last state.
	reading sync.Mutex
	full    time.Time // when the bucket is full again
}

// A state is what one read has found. It does not change.
type state struct {
	json   string // labels of the files
	err    error  // of the label files
	byName map[string]label
	set    pdu.LabelSet // of byName; for clients without labels of their own
}

// New returns a Host. It reads no file: see Refresh.
func New(cfg Config) *Host {
	h := &Host{cfg: cfg, name: hostname{get: cfg.Hostname, every: cmp.Or(cfg.HostnameEvery, DefaultHostnameEvery)}}
	h.load = func(warn func(error)) ([]hostlabels.Label, hostlabels.Size, error) {
		if cfg.Dir == "" {
			return cfg.List, hostlabels.Size{}, nil
		}
		return hostlabels.LoadSize(cfg.Dir, warn)
	}
	return h
}

// Text returns the labels of the files, as JSON.
func (h *Host) Text() string {
	if last := h.last.Load(); last != nil {
		return last.json
	}
	return ""
}

// Current returns the labels for a request, with those of the client, and reports whether
// the files differ from what was read before.
func (h *Host) Current(now time.Time, client ...pdu.NamedLabel) (set pdu.LabelSet, changed bool, err error) {
	host, changed := h.current(now)
	if host.err != nil || len(client) == 0 {
		return host.set, changed, host.err
	}
	byName := maps.Clone(host.byName)
	for _, l := range client {
		byName[l.Name] = label{l, ""}
	}
	set, err = h.set(slices.Collect(maps.Values(byName)))
	return set, changed, err
}

// current reads the files, unless they are being read or were read too often.
func (h *Host) current(now time.Time) (host *state, changed bool) {
	last := h.last.Load()
	if last == nil {
		h.reading.Lock()
	} else if !h.reading.TryLock() {
		return last, false
	}
	defer h.reading.Unlock()
	if last = h.last.Load(); last != nil && h.full.Sub(now) > readBurst {
		return last, false
	}
	changed = h.read(now)
	return h.last.Load(), changed
}

// Refresh reads the files and reports whether they differ from what was read before.
func (h *Host) Refresh(now time.Time) (changed bool) {
	h.reading.Lock()
	defer h.reading.Unlock()
	return h.read(now)
}

// read is Refresh for a caller that has locked reading.
func (h *Host) read(now time.Time) (changed bool) {
	list, size, err := h.load(h.warn)
	if h.full.Before(now) {
		h.full = now
	}
	h.full = h.full.Add(readCost + time.Duration(size.Files)*readCostFile + time.Duration(size.Bytes/1024)*readCostKB)

	next := &state{json: text(list), err: err, byName: make(map[string]label)}
	for _, l := range list {
		flags := pdu.LabelKind(0)
		if l.Optional {
			flags |= pdu.LabelOptional
		}
		if strings.Contains(l.Name, ".") {
			flags |= pdu.LabelCompound
		}
		next.byName[l.Name] = label{pdu.NamedLabel{Name: l.Name, Value: string(l.Value), Flags: flags}, l.File}
	}
	for _, l := range []pdu.NamedLabel{Named("hostname", h.Hostname(), 0), Named("domainname", domainName(), 0), h.machineID()} {
		next.byName[l.Name] = label{l, ""}
	}
	if err == nil {
		next.set, next.err = h.set(slices.Collect(maps.Values(next.byName)))
	}
	last := h.last.Swap(next)
	changed = last != nil && last.json != next.json
	h.cfg.Debug.Log(diag.DebugLabels, "context labels of the files, changed: {changed}: {labels}", "changed", changed, "labels", next.json)
	return changed
}

// text returns labels as JSON; "" if there are none.
func text(list []hostlabels.Label) string {
	if len(list) == 0 {
		return ""
	}
	var text strings.Builder
	for i, l := range list {
		text.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&text, "%q:%s", l.Name, l.Value)
	}
	text.WriteByte('}')
	return text.String()
}

// warn logs what is wrong with a label file, which is then left out.
func (h *Host) warn(err error) {
	h.cfg.Limiter.Warn("labels "+err.Error(), "labels: {error}", "error", err)
}
