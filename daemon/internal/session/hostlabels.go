package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A LabelSource says where the context labels are that are not pmcd's own.
type LabelSource struct {
	Dir string // with labels and labels.conf ($PCP_SYSCONF_DIR)
	// Embedded says that the labels are List, by name, and that no file is read.
	Embedded bool
	List     []hostlabels.Label
}

// load returns the labels and what was read for them.
func (s LabelSource) load(warn func(error)) ([]hostlabels.Label, hostlabels.Size, error) {
	if s.Embedded {
		return s.List, hostlabels.Size{}, nil
	}
	return hostlabels.LoadSize(s.Dir, warn)
}

// A request for context labels reads the files, so that a client sees a change with its
// next request. A client can send such requests faster than files can be read, and a
// request reads while others wait. So reads are rate-limited by a token bucket, whose tokens
// are time: it holds labelBurst, and a read takes what it costs. While it is overdrawn, a
// request gets what was read last. The cost is that of what was read, not a measured time,
// which would be longer on a busy host. Measured: one small file is read in 46 µs (a cost of
// 11 ms), 1000 small ones in 11 ms (1 s), ten of 58 kB with 5000 labels each in 69 ms (2 s).
const (
	labelBurst    = 200 * time.Millisecond
	labelCost     = 10 * time.Millisecond // of each read
	labelCostFile = time.Millisecond      // of each label file
	labelCostKB   = 4 * time.Millisecond  // of each 1024 bytes of them
)

// hostLabels are the context labels that all clients get, as they were last read.
type hostLabels struct {
	source   LabelSource
	load     func(warn func(error)) ([]hostlabels.Label, hostlabels.Size, error) // source.load
	hostname func() string
	notify   func(stateChange int32) // all clients
	limiter  *diag.LogLimiter
	debug    *diag.Debug

	last atomic.Pointer[hostLabelSet] // nil before files were read

	// reading guards full. It is held while files are read, but requests do not wait for
	// it if there is a last set.
	reading sync.Mutex
	full    time.Time // when the bucket is full again
}

// A hostLabelSet is what one read has found. It does not change.
type hostLabelSet struct {
	json   string // labels of the files
	err    error  // of the label files
	byName map[string]hostLabel
	set    pdu.LabelSet // of byName; for clients without labels of their own
}

// text returns the labels of the files, as JSON.
func (h *hostLabels) text() string {
	if last := h.last.Load(); last != nil {
		return last.json
	}
	return ""
}

// current returns the labels for a request, and reports whether the files differ from what
// was read before.
func (h *hostLabels) current(now time.Time) (set *hostLabelSet, changed bool) {
	last := h.last.Load()
	if last == nil {
		h.reading.Lock()
	} else if !h.reading.TryLock() {
		return last, false
	}
	defer h.reading.Unlock()
	if last = h.last.Load(); last != nil && h.full.Sub(now) > labelBurst {
		return last, false
	}
	changed = h.read(now)
	return h.last.Load(), changed
}

// refresh reads the files and reports whether they differ from what was read before.
func (h *hostLabels) refresh(now time.Time) (changed bool) {
	h.reading.Lock()
	defer h.reading.Unlock()
	return h.read(now)
}

// read is refresh for a caller that has locked reading.
func (h *hostLabels) read(now time.Time) (changed bool) {
	labels, size, err := h.load(h.warn)
	if h.full.Before(now) {
		h.full = now
	}
	h.full = h.full.Add(labelCost + time.Duration(size.Files)*labelCostFile + time.Duration(size.Bytes/1024)*labelCostKB)

	next := &hostLabelSet{json: labelText(labels), err: err, byName: make(map[string]hostLabel)}
	for _, l := range labels {
		flags := pdu.LabelKind(0)
		if l.Optional {
			flags |= pdu.LabelOptional
		}
		if strings.Contains(l.Name, ".") {
			flags |= pdu.LabelCompound
		}
		next.byName[l.Name] = hostLabel{pdu.NamedLabel{Name: l.Name, Value: string(l.Value), Flags: flags}, l.File}
	}
	addLabel(next.byName, 0, "hostname", h.hostname())
	addLabel(next.byName, 0, "domainname", domainName())
	name, id := h.machineID()
	addLabel(next.byName, 0, name, id)
	if err == nil {
		next.set, next.err = h.set(slices.Collect(maps.Values(next.byName)))
	}
	last := h.last.Swap(next)
	changed = last != nil && last.json != next.json
	h.debug.Log(diag.DebugLabels, "context labels of the files, changed: {changed}: {labels}", "changed", changed, "labels", next.json)
	return changed
}

// labelText returns labels as JSON; "" if there are none.
func labelText(labels []hostlabels.Label) string {
	if len(labels) == 0 {
		return ""
	}
	var text strings.Builder
	for i, l := range labels {
		text.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&text, "%q:%s", l.Name, l.Value)
	}
	text.WriteByte('}')
	return text.String()
}

// addLabel adds a label of pmcd's own.
func addLabel(byName map[string]hostLabel, flags pdu.LabelKind, name string, value any) {
	if text, err := json.Marshal(value); err == nil {
		byName[name] = hostLabel{pdu.NamedLabel{Name: name, Value: string(text), Flags: flags}, ""}
	}
}

// A hostLabel is a context label and the file that it is from, "" for pmcd's own.
type hostLabel struct {
	pdu.NamedLabel
	file string
}

// set returns the set of labels. One that cannot be in a set, or for which
// there is no room, is left out, and the log says so.
func (h *hostLabels) set(labels []hostLabel) (pdu.LabelSet, error) {
	list := make([]pdu.NamedLabel, len(labels))
	for i, l := range labels {
		list[i] = l.NamedLabel
	}
	set, err := pdu.NewLabelSet(pdu.NoInst, pdu.LabelContext, list...)
	if err == nil {
		return set, nil
	}
	// Short ones first: if there is no room, the long one is left out.
	slices.SortFunc(labels, func(a, b hostLabel) int {
		return cmp.Or(cmp.Compare(len(a.Value), len(b.Value)), cmp.Compare(a.Name, b.Name))
	})
	list = list[:0]
	room := maxLabelJSON - len("{}")
	for _, l := range labels {
		one, err := pdu.NewLabelSet(pdu.NoInst, pdu.LabelContext, l.NamedLabel)
		n := len(one.JSON) - len("{}") + len(",")
		if err == nil && (n > room || len(list) == maxLabels) {
			err = fmt.Errorf("no room for label %s", l.Name)
		}
		if err != nil {
			h.warn(fmt.Errorf("%s: %w; it is left out", cmp.Or(l.file, "pmcd"), err))
			continue
		}
		list, room = append(list, l.NamedLabel), room-n
	}
	return pdu.NewLabelSet(pdu.NoInst, pdu.LabelContext, list...)
}

// What a label set can hold (PM_MAXLABELS, PM_MAXLABELJSONLEN).
const (
	maxLabels    = 254
	maxLabelJSON = 65534 // bytes
)

// domainName is the NIS domain name, or a stand-in (getdomainname(2)).
func domainName() string {
	var u syscall.Utsname
	if syscall.Uname(&u) == nil {
		var b strings.Builder
		for _, c := range u.Domainname {
			if c == 0 {
				break
			}
			b.WriteByte(byte(c))
		}
		if name := b.String(); name != "" && name != "(none)" {
			return name
		}
	}
	return "localdomain"
}

// maxMachineID is the largest size of /etc/machine-id, in bytes.
const maxMachineID = 4 << 10

// machineID reads the id of this machine, and labels.conf. It returns the name of the label,
// and its value: the id itself or, if labels.conf says so, a hash of it.
func (h *hostLabels) machineID() (name, id string) {
	b, err := regular.ReadFile("/etc/machine-id", maxMachineID)
	id = strings.TrimSpace(string(b))
	if err != nil || id == "" {
		id = "localmachine"
	}
	var conf hostlabels.Conf
	if !h.source.Embedded {
		conf, _ = hostlabels.LoadConf(h.source.Dir, h.warn)
	}
	if conf.MachineIDHash == "sha256" {
		sum := sha256.Sum256([]byte(id))
		return "machineid_sha256", hex.EncodeToString(sum[:])
	}
	return "machineid", id
}

// warn logs what is wrong with a label file, which is then left out.
func (h *hostLabels) warn(err error) {
	h.limiter.Warn("labels "+err.Error(), "labels: {error}", "error", err)
}
