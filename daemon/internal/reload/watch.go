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
)

// Files change in several steps: they are truncated and written, or another
// one gets their name. A reload is asked for when nothing has happened for
// watchQuiet, and no later than watchMost after the first step.
const (
	watchQuiet = 200 * time.Millisecond
	watchMost  = 2 * time.Second
	watchAgain = 10 * time.Second // between two looks if nothing can be watched
)

// Watch requests a reload when a file of the configuration has changed, until ctx
// ends. It watches directories: a watch on a file would stay with the old file when
// another gets its name.
func (r *Reloader) Watch(ctx context.Context) {
	list := newWatchList(&r.cfg)
	for {
		// In this order: what changes after the look is an event.
		w, err := list.watch()
		now := list.versions()
		if changed := differences(r.watchedBefore, now); len(changed) > 0 {
			r.cfg.Log.Info("changed: {path}", "path", strings.Join(changed, ", "))
			r.requestReload()
		}
		r.watchedBefore = now
		if err == nil {
			quiet(ctx, w.Events, w.Errors)
			w.Close()
		} else {
			r.cfg.Limiter.Warn("watch", "cannot watch the configuration, and look at it every {delay}: {error}", "delay", watchAgain, "error", err)
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

// quiet returns when something has happened and it is quiet again, or ctx ends.
// Events may be lost (an error says so), so which ones they are does not matter.
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

// A watchList is the files of the configuration, and directories all of whose files
// belong to it.
type watchList struct{ files, dirs []string }

func newWatchList(cfg *Config) watchList {
	l := watchList{files: []string{cfg.ConfigFile, cfg.ConfigFile + ".access", cfg.Namespace.Path}}
	if labels := cfg.LabelDir; labels != "" {
		l.files = append(l.files, filepath.Join(labels, "labels.conf"))
		l.dirs = []string{filepath.Join(labels, "labels"), filepath.Join(labels, "labels", "optional")}
	}
	return l
}

// versions returns the versions of the files that are there now.
func (l watchList) versions() map[string]fileVersion {
	files := slices.Clone(l.files)
	for _, dir := range l.dirs {
		entries, _ := os.ReadDir(dir) // none if it is not there
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

// differences returns the names of what is not the same in a and b, sorted.
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
		if err := w.Add(dir); err != nil && !os.IsNotExist(err) { // it may go at any time
			w.Close()
			return nil, err
		}
	}
	return w, nil
}

// addDirs adds to where the directory of path or, if that does not exist, the
// one where it would be made; and those with a symbolic link on the way.
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
