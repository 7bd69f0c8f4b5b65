package mmv

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/gopcp/pmcd/internal/mmvformat"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// rescan reads the directory and the files in it that have changed. If it returns an
// error, which is that of the context, nothing has changed but what is known of
// files, so that the next rescan goes on from there.
func (a *agent) rescan(ctx context.Context) error {
	if a.forced {
		a.entries = nil // read all files again
		a.forced, a.reload = false, 0
	}
	seen := stateOf(a.dir)
	a.seen = dirState{recent: true} // if this ends early
	names, err := readNames(a.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.log.report(a.dir, "dir", err)
	}
	if len(names) == maxNames {
		a.log.report(a.dir, "many", fmt.Errorf("only the first %d files are looked at", maxNames))
	}
	if a.entries == nil {
		a.entries = make(map[string]*entry)
	}
	entries := make(map[string]*entry, len(names))
	used, lowest := make(map[int]bool), 1
	var files []*file
	var clusters []int
	var size, memory int64
	var poll, flux []*entry
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		e, err := a.look(ctx, name, &size)
		if err != nil {
			return err
		}
		if e == nil {
			continue
		}
		if e.flux {
			flux = append(flux, e)
		}
		f := e.file
		if f == nil {
			continue
		}
		cluster := chooseCluster(int(f.header.Cluster), used, &lowest)
		memory += int64(f.memory)
		switch {
		case cluster == 0 || len(files) == maxFiles:
			a.log.report(f.path, "many", errors.New("ignoring this file: there are too many files"))
			continue
		case memory > maxMemory:
			memory -= int64(f.memory)
			a.log.report(f.path, "memory", errors.New("ignoring this file: the files take too much memory altogether"))
			continue
		}
		entries[name] = e
		a.entries[name] = e // for the next rescan, if this one ends early
		used[cluster] = true
		files, clusters, poll = append(files, f), append(clusters, cluster), append(poll, e)
	}
	a.entries, a.seen = entries, seen
	a.poll, a.inFlux = append(flux, poll...), len(flux)
	a.next = [2]int{}
	a.reload = 0
	if len(flux) > 0 {
		a.reload = 1
	}
	if !slices.Equal(files, a.files) {
		for i, f := range files {
			f.cluster = clusters[i]
		}
		a.index = a.build(files)
		a.changed = true
	}
	if slices.Contains(a.debug, "appl0") {
		a.log.reloaded(a.dir, len(a.files), a.metrics)
	}
	return nil
}

// readNames returns the names in a directory in their order, without hidden ones.
func readNames(dir string) ([]string, error) {
	d, err := regular.OpenDir(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(maxNames)
	if err == io.EOF {
		err = nil
	}
	names = slices.DeleteFunc(names, func(s string) bool { return s[0] == '.' })
	slices.Sort(names)
	return names, err
}

// look returns what is known of a name in the directory, and reads the file if it has
// changed. It returns nil if there is no regular file. size is the size of the files
// before it, and becomes that with it.
func (a *agent) look(ctx context.Context, name string, size *int64) (*entry, error) {
	old := a.entries[name]
	path := filepath.Join(a.dir, name)
	var st syscall.Stat_t
	// Do not even open what is no regular file.
	if err := syscall.Stat(path, &st); err != nil || st.Mode&syscall.S_IFMT != syscall.S_IFREG {
		if err != nil && err != syscall.ENOENT {
			a.log.report(path, "stat", err)
		}
		return nil, nil
	}
	if err := a.in.open(path); err != nil {
		if transient(err) && old != nil {
			return old, nil
		}
		a.log.report(path, "open", fmt.Errorf("ignoring this file: %w", err))
		if transient(err) {
			return &entry{path: path, flux: true}, nil // try again
		}
		return nil, nil
	}
	defer a.in.close()
	if *size += a.in.size; *size > maxReadAll {
		*size -= a.in.size
		a.log.report(path, "large", errors.New("ignoring this file: the files are too large altogether"))
		return nil, nil
	}
	if old != nil && old.file != nil && !a.changedFile(old.file) {
		return old, nil
	}
	return a.load(ctx, name, path)
}

// load reads the file that is open.
func (a *agent) load(ctx context.Context, name, path string) (*entry, error) {
	e := &entry{path: path}
	in := &a.in
	ignore := func(err error) (*entry, error) {
		a.log.report(path, "file", fmt.Errorf("ignoring this file: %w", err))
		return e, nil
	}
	var raw [mmvformat.HeaderSize]byte
	if in.size >= mmvformat.HeaderSize {
		var err error
		if raw, err = in.header(); err != nil {
			return ignore(err)
		}
	}
	h, err := checkHeader(raw[:], in.size)
	switch {
	case err != nil:
		return ignore(err)
	case !complete(&h):
		e.flux, e.raw = true, raw
		return e, nil
	case !alive(&h):
		return ignore(fmt.Errorf("process %d has ended", h.Process))
	}
	b := a.buffer(int(in.size))
	err = in.read(b, 0)
	if again, err2 := in.header(); err != nil || err2 != nil || again != raw || string(b[:len(raw)]) != string(raw[:]) {
		e.flux = true // It has changed meanwhile. Without raw, it differs from this entry.
		return e, nil
	}
	f := &file{name: name, path: path, id: in.id, size: in.size, raw: raw, header: h}
	found, err := load(ctx, f, b, a.name)
	if err != nil {
		return nil, err
	}
	for _, p := range found {
		a.log.report(path, p.what+p.reason, p)
	}
	e.file = f
	return e, nil
}

// buffer returns memory for a file, which is used again unless it is large.
func (a *agent) buffer(n int) []byte {
	const keep = 1 << 20
	if n > keep {
		return make([]byte, n)
	}
	if a.whole == nil {
		a.whole = make([]byte, keep)
	}
	return a.whole[:n]
}
