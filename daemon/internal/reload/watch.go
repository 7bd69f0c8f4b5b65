package reload

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A file changes in several steps: it is truncated and written, or another file gets its
// name. A reload is requested when nothing has changed for watchQuiet, and at most
// watchMost after the first step.
const (
	watchQuiet = 200 * time.Millisecond
	watchMost  = 2 * time.Second
	watchAgain = 10 * time.Second // between two checks if the files cannot be watched
)

// Watch requests a reload when a file of the configuration has changed, until ctx ends. It
// watches directories, because a watch on a file would stay with the old file when another
// one gets its name.
func (r *Reloader) Watch(ctx context.Context) {
	list := newWatchList(&r.cfg)
	for {
		// In this order: a change after versions is an event.
		w, err := list.watch()
		now := list.versions()
		if changed := differences(r.watchedBefore, now); len(changed) > 0 {
			r.cfg.Log.Info("changed: {path}; pmcd reads the configuration again", "path", strings.Join(changed, ", "))
			r.requestReload()
		}
		r.watchedBefore = now
		if err == nil {
			quiet(ctx, w.Events, w.Errors)
			w.Close()
		} else {
			r.cfg.Limiter.Warn("watch", "cannot watch the files of the configuration: {error}; pmcd looks at them every {delay}", "error", err, "delay", watchAgain)
			again := time.NewTimer(watchAgain)
			select {
			case <-again.C:
			case <-ctx.Done():
			}
			again.Stop()
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// quiet returns when there were events and then none for a while, or when ctx ends. It
// does not look at the events, because some may be lost (there is an error then).
func quiet(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error) {
	var timer, most <-chan time.Time
	for {
		select {
		case <-events:
		case <-errs:
		case <-timer:
			return
		case <-most:
			return
		case <-ctx.Done():
			return
		}
		timer = time.After(watchQuiet)
		if most == nil {
			most = time.After(watchMost)
		}
	}
}

// A watchList has the files of the configuration, and directories whose files all belong
// to the configuration.
type watchList struct{ files, dirs []string }

func newWatchList(cfg *Config) watchList {
	l := watchList{files: []string{cfg.ConfigFile, cfg.ConfigFile + ".access", cfg.Namespace.Path}}
	if cfg.TLSConf != "" {
		l.files = append(l.files, cfg.TLSConf)
	}
	if labels := cfg.LabelDir; labels != "" {
		l.files = append(l.files, filepath.Join(labels, "labels.conf"))
		l.dirs = []string{filepath.Join(labels, "labels"), filepath.Join(labels, "labels", "optional")}
	}
	return l
}

// versions returns the current versions of the files.
func (l watchList) versions() map[string]fileVersion {
	files := slices.Clone(l.files)
	for _, dir := range l.dirs {
		entries, _ := regular.ReadDir(dir) // none if it does not exist
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), ".") {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	all := make(map[string]fileVersion)
	for _, f := range files {
		if s := versionOf(f); !s.dir {
			all[f] = s
		}
	}
	return all
}

// differences returns the names of files whose versions in a and b differ, sorted.
func differences(a, b map[string]fileVersion) []string {
	var names []string
	for f, s := range b {
		if a[f] != s {
			names = append(names, f)
		}
	}
	for f := range a {
		if _, ok := b[f]; !ok {
			names = append(names, f)
		}
	}
	slices.Sort(names)
	return names
}

// watch watches all directories where a change can replace a file of the list.
func (l watchList) watch() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, err
	}
	files := slices.Clone(l.files)
	for _, dir := range l.dirs {
		files = append(files, filepath.Join(dir, "any"))
	}
	where := make(map[string]bool)
	for _, f := range files {
		if f, err := filepath.Abs(f); err == nil {
			addDirs(where, f, 0)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(where)) {
		if err := w.Add(dir); err != nil && !os.IsNotExist(err) { // it may be removed at any time
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// addDirs adds the directory of path to where or, if that does not exist, the nearest
// existing directory above it. It also adds the directories of symbolic links on the way.
func addDirs(where map[string]bool, path string, depth int) {
	dir := filepath.Dir(path)
	for dir != "/" {
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
			break
		}
		dir = filepath.Dir(dir)
	}
	where[dir] = true
	const most = 40 // links, as for the kernel
	for ; path != "/" && depth < most; path = filepath.Dir(path) {
		fi, err := os.Lstat(path)
		if err != nil || fi.Mode().Type() != fs.ModeSymlink {
			continue
		}
		where[filepath.Dir(path)] = true
		if to, err := os.Readlink(path); err == nil {
			if !filepath.IsAbs(to) {
				to = filepath.Join(filepath.Dir(path), to)
			}
			addDirs(where, to, depth+1)
		}
	}
}
