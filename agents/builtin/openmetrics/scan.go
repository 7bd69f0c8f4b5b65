package openmetrics

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// scan looks for new files in the directory of sources. A source whose file is removed stays, without
// values: its metrics may be in archives.
func (a *agent) scan() {
	a.scanned = time.Now()
	var paths []string
	filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			a.complainOnce(path, "%v", err)
			return nil
		}
		if !d.IsDir() && !strings.HasPrefix(d.Name(), ".") {
			paths = append(paths, path)
		}
		return nil
	})
	if !a.noSort {
		slices.Sort(paths)
	}
	before := len(a.sources)
	var found []*source
	for _, path := range paths {
		if s := a.newSource(path); s != nil {
			found = append(found, s)
			a.byCluster[s.cluster] = s
		}
	}
	if len(found) > 0 || a.clusters.unsaved && time.Since(a.saved) >= saveRetry {
		a.saved = time.Now()
		err := save(noLock{}, []*table{a.clusters}) // before clients get the numbers
		switch {
		case err != nil && (a.saveErr == nil || a.saveErr.Error() != err.Error()):
			a.log.Warn("{path}: new numbers are not saved, and may be others when the agent starts again: {error}", "path", a.clusters.path, "error", err)
		case err == nil && a.saveErr != nil:
			a.log.Info("{path} is saved again", "path", a.clusters.path)
		}
		a.saveErr = err
	}
	a.sources = append(a.sources, found...)
	a.changed = a.changed || len(a.sources) > before
}

// A noLock is a lock of what one goroutine has.
type noLock struct{}

func (noLock) Lock()   {}
func (noLock) Unlock() {}

// newSource returns the source of a file; nil if it is none, or is known.
func (a *agent) newSource(path string) *source {
	dir, file := filepath.Split(path)
	ext := filepath.Ext(file)
	name := strings.ReplaceAll(strings.TrimPrefix(dir, a.dir+"/")+strings.TrimSuffix(file, ext), "/", ".")
	st, err := os.Stat(path)
	if err != nil {
		a.complainOnce(path, "%v", err)
		return nil
	}
	script := st.Mode()&0o100 != 0
	switch {
	case !st.Mode().IsRegular(), !script && ext != ".url": // such as README
		return nil
	case script && a.noScripts:
		a.complainOnce(path, "it is a script, and scripts are off")
		return nil
	case name == "control":
		a.complainOnce(path, "%s.control has the metrics of the agent itself", a.root)
		return nil
	case !validName(name) || strings.Contains(name, ":"):
		a.complainOnce(path, "%q cannot be part of a name of PCP", name)
		return nil
	}
	for _, s := range a.sources {
		if s.name == name {
			return nil
		}
	}
	a.clusters.recheck(noLock{})
	if n, _, err := a.clusters.number("control", true); err == nil && n != 0 {
		a.complainOnce(a.clusters.path, "its first name is not control, so the numbers of the sources are not known")
		return nil
	}
	n, _, err := a.clusters.number(name, true)
	if err != nil {
		a.complainOnce(path, "it has no number: %v", err)
		return nil
	}
	if n > lastSource {
		a.complainOnce(path, "it has no number: %v", errFull)
		return nil
	}
	if a.byCluster[int(n)] != nil { // a second file of that name
		return nil
	}
	return newSource(a, name, path, script, int(n))
}
