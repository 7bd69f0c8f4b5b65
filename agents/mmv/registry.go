package mmv

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/internal/safepath"
	"github.com/gopcp/pmcd/pdu"
)

// A Config says what file a [Registry] writes.
type Config struct {
	// Name is the name of the file and, after "mmv.", the beginning of the names of its
	// metrics: a letter, followed by letters, digits and underscores. With dots, several such
	// names make more levels.
	//
	// Two processes that write files of one name replace each other's.
	Name string

	// Dir is the directory. The default is the one in which the agent looks, which must
	// exist: $PCP_TMP_DIR/mmv, where PCP_TMP_DIR is read from the environment or from
	// pcp.conf(5), and is /var/lib/pcp/tmp if there is no pcp.conf.
	Dir string

	// Cluster is the cluster of the metrics' PMIDs, from 1 to 4095. If it is 0, the agent
	// chooses one, which may change when files come and go. Set it if PMIDs matter, as they
	// do for archives.
	Cluster int

	// NoPrefix leaves Name out of the names of metrics.
	NoPrefix bool

	// Persistent keeps the file, and so the metrics with their last values, after Close and
	// after the end of the process. Otherwise Close removes the file, and the agent ignores
	// it when no process has the process id of the writer. A program in a PID namespace
	// other than the agent's, as in a container, needs Persistent.
	Persistent bool

	// Sentinel makes values absent until their first update. See also Counter.Unset.
	Sentinel bool

	// Labels are those of all metrics. They need a Cluster.
	Labels Labels
}

// A Registry has the metrics and instance domains of a file.
type Registry struct {
	conf   Config
	labels []label

	mu       sync.Mutex // guards the following
	metrics  []*metric
	domains  []*Instances
	nlabels  int
	names    map[string]bool
	items    numbers
	serials  numbers
	file     *file // nil: not published
	outdated bool  // the file lacks a metric or an instance domain

	moving sync.Mutex // held while words move; guards entry.left
}

// New returns a registry without metrics. An error says all that is wrong with conf.
func New(conf Config) (*Registry, error) {
	r := &Registry{
		conf: conf, names: make(map[string]bool),
		items: numbers{used: make(map[int]bool)}, serials: numbers{used: make(map[int]bool)},
	}
	var err error
	r.labels, err = conf.Labels.encode()
	errs := []error{err, checkName(conf.Name), r.countLabels(len(r.labels))}
	if isReserved(conf.Name) {
		errs = append(errs, errReserved)
	}
	if conf.Cluster < 0 || conf.Cluster > mmvformat.MaxCluster {
		errs = append(errs, fmt.Errorf("cluster %d is not in the range of 0 to %d", conf.Cluster, mmvformat.MaxCluster))
	}
	if len(r.labels) > 0 && conf.Cluster == 0 {
		errs = append(errs, errors.New("labels need a cluster"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("mmv: file %s: %w", conf.Name, err)
	}
	return r, nil
}

// Must returns v, what a function of this package has returned, and panics if err is not nil.
// It is for variables of a package, whose definitions are part of the program.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// control is the first part of the names of the agent's own metrics.
const control = "control"

var errReserved = errors.New(`the agent has metrics of its own below "` + control + `"`)

// isReserved reports whether a name begins with control.
func isReserved(name string) bool {
	first, _, _ := strings.Cut(name, ".")
	return first == control
}

// countLabels counts n further labels, unless there are too many then.
func (r *Registry) countLabels(n int) error {
	if n > 0 && r.nlabels+n > mmvformat.MaxLabels {
		return fmt.Errorf("%d labels, but a file has at most %d", r.nlabels+n, mmvformat.MaxLabels)
	}
	r.nlabels += n
	return nil
}

// Path returns the name of the file.
func (r *Registry) Path() (string, error) {
	dir := r.conf.Dir
	if dir == "" {
		var err error
		if dir, err = mmvformat.Dir(mmvformat.DirMMV); err != nil {
			return "", fmt.Errorf("mmv: %w", err)
		}
	}
	return filepath.Join(dir, r.conf.Name), nil
}

// Publish writes the file, which replaces one of the same name.
//
// A program that defines more metrics later calls Publish again. If nothing has changed and
// the file is there, that does nothing. If the file cannot be written, the former one, if
// any, remains as long as possible, and Publish may be called again.
func (r *Registry) Publish() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.metrics) == 0 {
		return fmt.Errorf("mmv: file %s: no metrics", r.conf.Name)
	}
	if r.file != nil && !r.outdated && r.file.isThere() {
		return nil
	}
	return r.write()
}

// write writes a new file and moves all values to it. The caller holds mu.
func (r *Registry) write() error {
	path, err := r.Path()
	if err != nil {
		return err
	}
	img := r.image()
	r.outdated = true
	f, err := createFile(path, img.bytes)
	if err != nil {
		return fmt.Errorf("mmv: file %s: %w", r.conf.Name, err)
	}
	// Values move before the file gets its name. If they moved after that, a reader could see
	// a counter decrease.
	r.moveAll(func(i int) *entry { return img.entry(f.mapping, i) })
	if err := f.rename(); err != nil {
		// The former file is no longer updated.
		r.unpublish(true)
		return fmt.Errorf("mmv: file %s: %w", r.conf.Name, err)
	}
	r.file, r.outdated = f, false
	return nil
}

// moveAll moves all values; to returns the entry of the i-th one.
func (r *Registry) moveAll(to func(i int) *entry) {
	i := 0
	var entries []*entry // made before words move, so that updates do not wait for that
	for _, m := range r.metrics {
		for range m.cells {
			entries = append(entries, to(i))
			i++
		}
	}
	r.moving.Lock()
	defer r.moving.Unlock()
	i = 0
	for _, m := range r.metrics {
		for _, c := range m.cells {
			c.move(entries[i])
			i++
		}
	}
}

// unpublish moves all values to memory of their own. The caller holds mu.
func (r *Registry) unpublish(remove bool) error {
	f := r.file
	r.file = nil
	r.moveAll(func(int) *entry { return ownEntry() })
	if f == nil || !remove || !f.isThere() {
		return nil
	}
	return safepath.Remove(f.path)
}

// Close removes the file, unless it is Persistent or another process has replaced it.
// After that, updates still change the values, but no client sees them. Publish makes a new
// file with the same values.
func (r *Registry) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.unpublish(!r.conf.Persistent); err != nil {
		return fmt.Errorf("mmv: %w", err)
	}
	return nil
}

// checkName returns what is wrong with the name of a metric or a file.
func checkName(name string) error {
	if len(name) >= mmvformat.StringSize {
		return fmt.Errorf("a name of %d bytes, but it has at most %d", len(name), mmvformat.StringSize-1)
	}
	for part := range strings.SplitSeq(name, ".") {
		if !isWord(part) {
			return errors.New("a name is a letter followed by letters, digits and underscores, or several of these with dots between them")
		}
	}
	return nil
}

// isWord reports whether s is a letter followed by letters, digits and underscores.
func isWord(s string) bool {
	for i, c := range []byte(s) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || c != '_' && (c < '0' || c > '9')) {
			return false
		}
	}
	return s != ""
}

// checkOneLine returns what is wrong with a one-line help text.
func checkOneLine(text string) error {
	const what = "a one-line help text"
	if strings.IndexByte(text, '\n') >= 0 {
		return errors.New(what + " has several lines")
	}
	return checkText(what, text)
}

// checkText returns what is wrong with a help text or the name of an instance.
func checkText(what, text string) error {
	if len(text) >= mmvformat.StringSize {
		return fmt.Errorf("%s of %d bytes, but it has at most %d", what, len(text), mmvformat.StringSize-1)
	}
	if strings.IndexByte(text, 0) >= 0 {
		return fmt.Errorf("%s has a zero byte", what)
	}
	return nil
}

// validSem reports whether a metric may have these semantics.
func validSem(s pdu.Sem) bool {
	return s == pdu.SemCounter || s == pdu.SemInstant || s == pdu.SemDiscrete
}
