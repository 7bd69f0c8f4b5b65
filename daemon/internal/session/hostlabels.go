package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
	"github.com/gopcp/pmcd/pmcdconf/regular"
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
