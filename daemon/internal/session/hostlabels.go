package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

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

// machineID is the label for the id of this machine, and its value: the id
// itself or, if labels.conf says so, a hash of it.
func (h *hostLabels) machineID() (name, id string) {
	b, err := os.ReadFile("/etc/machine-id")
	id = strings.TrimSpace(string(b))
	if err != nil || id == "" {
		id = "localmachine"
	}
	var conf pmcdconf.LabelsConf
	if !h.source.Embedded {
		conf, _ = pmcdconf.LoadLabelsConf(h.source.Dir, h.warn)
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

// A LabelSource says where the context labels are that are not pmcd's own.
type LabelSource struct {
	Dir string // with labels and labels.conf ($PCP_SYSCONF_DIR)
	// Embedded says that the labels are List, by name, and that no file is read.
	Embedded bool
	List     []pmcdconf.Label
}

// load returns the labels.
func (s LabelSource) load(warn func(error)) ([]pmcdconf.Label, error) {
	if s.Embedded {
		return s.List, nil
	}
	return pmcdconf.LoadLabels(s.Dir, warn)
}

// hostLabels are the context labels that are not pmcd's own, as they were last read.
type hostLabels struct {
	source  LabelSource
	limiter *diag.LogLimiter
	debug   *diag.Debug

	mu     sync.Mutex // guards the following: requests of several clients, and a reload, read files
	labels []pmcdconf.Label
	json   string
	err    error
	loaded bool
}

func (h *hostLabels) get() ([]pmcdconf.Label, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.labels, h.err
}

func (h *hostLabels) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.json
}

// refresh reads the label files and reports whether they differ from what was read
// before.
func (h *hostLabels) refresh() (changed bool) {
	labels, err := h.source.load(h.warn)
	var text strings.Builder
	for i, l := range labels {
		text.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&text, "%q:%s", l.Name, l.Value)
	}
	if len(labels) > 0 {
		text.WriteByte('}')
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = h.loaded && h.json != text.String()
	h.debug.Log(diag.DebugLabels, "context labels of the files, changed: {changed}: {labels}", "changed", changed, "labels", text.String())
	h.labels, h.json, h.err, h.loaded = labels, text.String(), err, true
	return changed
}
