package daemon

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/gopcp/pmcd/daemon/internal/agentset"
	"github.com/gopcp/pmcd/daemon/internal/diag"
	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pmcdconf"
)

// labels answers LABEL_REQ. The labels of the host are pmcd's own; the others
// come from agents, and clients merge the levels.
func (s *session) labels(w *work, b []byte) error {
	var m pdu.LabelReq
	if _, err := pdu.ParseInto(b, &m); err != nil {
		return s.fail(w, pdu.ErrnoIPC)
	}
	var domain int
	var unknown pdu.Errno
	switch m.Kind {
	case pdu.LabelContext:
		set, err := s.contextLabels()
		if err != nil {
			return s.fail(w, errnoOf(err))
		}
		return s.reply(w, &pdu.Labels{Ident: noIdent, Kind: m.Kind, Sets: []pdu.LabelSet{set}})
	case pdu.LabelDomain:
		domain, unknown = int(m.Ident), pdu.ErrnoNoAgent
	case pdu.LabelInDom, pdu.LabelInstances:
		domain, unknown = pdu.InDom(m.Ident).Domain(), pdu.ErrnoInDom
	case pdu.LabelCluster, pdu.LabelItem:
		domain, unknown = pdu.PMID(m.Ident).Domain(), pdu.ErrnoPMID
	default:
		return s.fail(w, pdu.ErrnoType)
	}
	profile := s.contexts.get(s.current)
	if profile == nil {
		profile = allInstances
	}
	answer, err := s.ask(w, domain, profile, b, unknown)
	if err != nil {
		return s.fail(w, errnoOf(err))
	}
	reply := answer.(*pdu.Labels)
	if len(reply.Sets) > 1 && m.Kind != pdu.LabelInstances {
		reply.Sets = reply.Sets[:1]
		return s.reply(w, reply)
	}
	if len(reply.Sets) == 0 && m.Kind == pdu.LabelDomain {
		if a := w.routes.Agent(domain); knowsNoLabels(a.Conn()) {
			set, err := agentLabel(a.Name())
			if err != nil {
				return s.fail(w, errnoOf(err))
			}
			reply.Sets = append(reply.Sets, set)
			return s.reply(w, reply)
		}
	}
	pdu.SetFrom(w.ans, 0)
	return s.write(w.ans)
}

// knowsNoLabels reports whether the agent of l is a DSO older than labels. In C pmcd's
// process those have the label of their domain from pmcd, newer ones from
// PCP's library.
func knowsNoLabels(l *agentset.Conn) bool {
	const withLabels = 7 // PMDA_INTERFACE_7
	return l != nil && l.Interface != 0 && l.Interface < withLabels
}

// agentLabel is the label of the domain of an agent that has none: the name,
// without what PCP's library would leave out of it too.
func agentLabel(name string) (pdu.LabelSet, error) {
	value, err := json.Marshal(strings.TrimSuffix(strings.TrimPrefix(name, "pmda"), " DSO"))
	if err != nil {
		return pdu.LabelSet{}, err
	}
	return pdu.NewLabelSet(pdu.NoInst, pdu.LabelDomain, pdu.NamedLabel{Name: "agent", Value: string(value)})
}

// noIdent is what context labels are about.
const noIdent = 0xffffffff

// allInstances is the profile of a client that has sent none.
var allInstances = new(pdu.Profile)

// contextLabels are the labels of the host: those in the files, those that
// pmcd knows of the host and, optional ones, of the client.
func (s *session) contextLabels() (pdu.LabelSet, error) {
	if s.d.refreshLabels() {
		s.d.notice(pdu.StateLabelChange)
	}
	files, err := s.d.labels.get()
	if err != nil {
		return pdu.LabelSet{}, err
	}
	byName := make(map[string]hostLabel)
	for _, l := range files {
		flags := pdu.LabelKind(0)
		if l.Optional {
			flags |= pdu.LabelOptional
		}
		if strings.Contains(l.Name, ".") {
			flags |= pdu.LabelCompound
		}
		byName[l.Name] = hostLabel{pdu.NamedLabel{Name: l.Name, Value: string(l.Value), Flags: flags}, l.File}
	}
	add := func(flags pdu.LabelKind, name string, value any) {
		text, err := json.Marshal(value)
		if err == nil {
			byName[name] = hostLabel{pdu.NamedLabel{Name: name, Value: string(text), Flags: flags}, ""}
		}
	}
	add(0, "hostname", s.d.hostname.current())
	add(0, "domainname", domainName())
	name, id := s.d.machineID()
	add(0, name, id)
	s.mu.Lock()
	container := s.container
	s.mu.Unlock()
	if container != "" {
		add(0, "container", container)
	}
	if p := s.conn.Peer(); p.Unix {
		add(pdu.LabelOptional, "groupid", p.GID)
		add(pdu.LabelOptional, "userid", p.UID)
	}
	return s.d.labelSet(slices.Collect(maps.Values(byName)))
}

// A hostLabel is a context label and the file that it is from, "" for pmcd's own.
type hostLabel struct {
	pdu.NamedLabel
	file string
}

// labelSet returns the set of labels. One that cannot be in a set, or for which
// there is no room, is left out, and the log says so.
func (d *Daemon) labelSet(labels []hostLabel) (pdu.LabelSet, error) {
	list := make([]pdu.NamedLabel, len(labels))
	for i, l := range labels {
		list[i] = l.NamedLabel
	}
	set, err := pdu.NewLabelSet(pdu.NoInst, pdu.LabelContext, list...)
	if err == nil {
		return set, nil
	}
	// Short ones first: the long one is what there is no room for.
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
			d.labelWarning(fmt.Errorf("%s: %w; it is left out", cmp.Or(l.file, "pmcd"), err))
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
func (d *Daemon) machineID() (name, id string) {
	b, err := os.ReadFile("/etc/machine-id")
	id = strings.TrimSpace(string(b))
	if err != nil || id == "" {
		id = "localmachine"
	}
	var conf pmcdconf.LabelsConf
	if d.cfg.Embedded == nil {
		conf, _ = pmcdconf.LoadLabelsConf(d.cfg.LabelDir, d.labelWarning)
	}
	if conf.MachineIDHash == "sha256" {
		sum := sha256.Sum256([]byte(id))
		return "machineid_sha256", hex.EncodeToString(sum[:])
	}
	return "machineid", id
}

// labelWarning logs what is wrong with a label file, which is then left out.
func (d *Daemon) labelWarning(err error) {
	d.limiter.Printf("labels "+err.Error(), "labels: %v", err)
}

// labelCache is what the label files last said.
type labelCache struct {
	mu     sync.Mutex // guards the following
	labels []pmcdconf.Label
	json   string
	err    error
	loaded bool
}

func (c *labelCache) get() ([]pmcdconf.Label, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.labels, c.err
}

func (c *labelCache) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.json
}

// loadLabels returns the labels of the host that are not pmcd's own.
func (d *Daemon) loadLabels() ([]pmcdconf.Label, error) {
	if e := d.cfg.Embedded; e != nil {
		return e.Labels, nil
	}
	return pmcdconf.LoadLabels(d.cfg.LabelDir, d.labelWarning)
}

// refreshLabels reads the label files and reports whether they say something
// else than before.
func (d *Daemon) refreshLabels() (changed bool) {
	labels, err := d.loadLabels()
	var text strings.Builder
	for i, l := range labels {
		text.WriteByte("{,"[min(i, 1)])
		fmt.Fprintf(&text, "%q:%s", l.Name, l.Value)
	}
	if len(labels) > 0 {
		text.WriteByte('}')
	}
	c := &d.labels
	c.mu.Lock()
	defer c.mu.Unlock()
	changed = c.loaded && c.json != text.String()
	d.debug.Printf(diag.DebugLabels, "context labels of the files, changed: %v: %s", changed, text.String())
	c.labels, c.json, c.err, c.loaded = labels, text.String(), err, true
	return changed
}
