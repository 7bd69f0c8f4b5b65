// Package compare takes snapshots of what a pmcd serves, and compares two: names,
// descriptors, texts, labels, instances, values and cost. Two pmcds are compared by
// snapshots that are taken at the same time.
package compare

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// format is that of the files. Fields may be added without a new one.
const format = 1

// A Snapshot is what a pmcd has served during some time.
type Snapshot struct {
	Format   int       `json:"format"`
	Host     string    `json:"host"` // as the client named it
	Hostname string    `json:"hostname,omitempty"`
	Version  string    `json:"version,omitempty"` // pmcd.version
	Build    string    `json:"build,omitempty"`   // pmcd.build
	Begin    time.Time `json:"begin"`             // the first fetch
	End      time.Time `json:"end"`               // the last one
	Samples  int       `json:"samples"`
	// Changes is how often pmcd said that an agent had begun or ended.
	Changes int               `json:"changes"`
	Metrics []Metric          `json:"metrics"`
	InDoms  []InDom           `json:"indoms"`
	Labels  map[string]string `json:"labels"` // by what they belong to, each as JSON
	Agents  []Agent           `json:"agents"`
	// Daemon is what pmcd and its agents use, or nil if the processes are not known.
	Daemon *Daemon `json:"daemon,omitempty"`
}

// A Metric is what a snapshot has of a metric.
type Metric struct {
	Name      string   `json:"name"`
	PMID      string   `json:"pmid,omitempty"`
	Type      string   `json:"type,omitempty"`
	Semantics string   `json:"semantics,omitempty"`
	Units     string   `json:"units,omitempty"`
	InDom     string   `json:"indom,omitempty"`
	OneLine   string   `json:"oneline,omitempty"`
	Help      string   `json:"help,omitempty"`
	Error     string   `json:"error,omitempty"` // there is no descriptor, or the last fetch had none of the values
	Values    []Series `json:"values,omitempty"`
}

// A Series is the values of a metric or of one of its instances.
type Series struct {
	Instance string `json:"instance,omitempty"`
	Samples  int    `json:"samples"` // that had a value
	First    string `json:"first"`
	Last     string `json:"last"`
	// Range is of numbers: absent if one of them was none, or infinite.
	Range *Range `json:"range,omitempty"`
}

// A Range is of the numbers of a series.
type Range struct {
	First float64 `json:"first"`
	Last  float64 `json:"last"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	Step  float64 `json:"step"`            // the largest change between two samples
	Drops int     `json:"drops,omitempty"` // how often it was less than half of what it was before
	Wraps int     `json:"wraps,omitempty"` // how often a counter of 32 bits began anew after its largest number
}

// An InDom is an instance domain.
type InDom struct {
	ID        string     `json:"id"`
	OneLine   string     `json:"oneline,omitempty"`
	Instances []Instance `json:"instances"`
	Moving    bool       `json:"moving,omitempty"` // instances came or went
	Error     string     `json:"error,omitempty"`
}

// An Instance is one of an InDom.
type Instance struct {
	ID   int32  `json:"id"`
	Name string `json:"name"`
}

// An Agent is what the metrics of a domain have in common.
type Agent struct {
	Domain int   `json:"domain"`
	Median int64 `json:"median_us"` // time to fetch all metrics
	Max    int64 `json:"max_us"`
}

// maxFile is how large a file with a snapshot may be: one of 20,000 processes has 100 MB.
const maxFile = 1 << 30

// Load reads a snapshot from a file.
func Load(path string) (*Snapshot, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var s Snapshot
	if err := json.NewDecoder(io.LimitReader(f, maxFile)).Decode(&s); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errors.New("the file is empty or incomplete")
		}
		return nil, fmt.Errorf("%s: not a snapshot: %w", path, err)
	}
	if s.Format != format {
		return nil, fmt.Errorf("%s: not a snapshot of this version of pmcdctl: its format is %d, not %d", path, s.Format, format)
	}
	return &s, nil
}

func (s *Snapshot) seconds() float64 { return s.End.Sub(s.Begin).Seconds() }

// Options say what is in a snapshot.
type Options struct {
	Prefixes []string // of names; none are all
	Exclude  []string // subtrees that are left out
	Samples  int
	Interval time.Duration // between two samples
	PID      int           // of the pmcd; 0 is that of its pid file or of pmcd.pid
}

// Selects reports whether a metric is one of those that o selects.
func (o *Options) Selects(name string) bool {
	under := func(x string) bool { return name == x || strings.HasPrefix(name, x+".") }
	return !slices.ContainsFunc(o.Exclude, under) &&
		(len(o.Prefixes) == 0 || slices.ContainsFunc(o.Prefixes, func(p string) bool { return strings.HasPrefix(name, p) }))
}

// Select leaves out the metrics that the options of a comparison do not select, and what only
// they have.
func (s *Snapshot) Select(prefixes, exclude []string) {
	o := Options{Prefixes: prefixes, Exclude: exclude}
	s.Metrics = slices.DeleteFunc(s.Metrics, func(m Metric) bool { return !o.Selects(m.Name) })
	used := make(map[string]bool)
	for i := range s.Metrics {
		used[s.Metrics[i].InDom] = true
	}
	s.InDoms = slices.DeleteFunc(s.InDoms, func(d InDom) bool { return !used[d.ID] })
}
