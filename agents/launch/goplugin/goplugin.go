// Package goplugin loads agents from Go plugins.
package goplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"plugin"
	"runtime/debug"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/gopcp/pmcd/agents"
)

// A Loader makes agents from plugins. It remembers what it has loaded, since
// code can be loaded only once into a process: there should be no second one.
// The zero value is ready to use, by several goroutines.
type Loader struct {
	mu    sync.Mutex // guards the following
	files map[string]*file
	calls map[entryCall]bool // entries that have not returned yet
}

// A file is a plugin that is loaded or could not be.
type file struct {
	info     os.FileInfo   // of what was loaded
	reported os.FileInfo   // of the change that was reported last
	loaded   chan struct{} // closed when the following are set
	plugin   *plugin.Plugin
	err      error
}

type entryCall struct {
	path, entry string
	domain      int
}

// Open loads the plugin path, unless that was done before, and has it make an
// agent for domain, until ctx ends. The entry is the one of the pmcd.conf line;
// see [Symbols] for what it is called in a plugin. The error wraps
// [ErrNotPlugin] if the file is something else.
//
// A plugin cannot be unloaded: opening it again calls the entry of the same
// code, and if the file is another one by then it is an error. A panic of the
// plugin is an error; what does not return is left alone, and not called a
// second time before it has.
func (l *Loader) Open(ctx context.Context, path, entry string, domain int) (agents.Agent, error) {
	f, err := l.file(path)
	if err != nil {
		return nil, err
	}
	select {
	case <-f.loaded:
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: its init functions have not returned in time", path)
	}
	if f.err != nil {
		return nil, f.err
	}
	name, newAgent, err := lookup(path, f.plugin, entry)
	if err != nil {
		return nil, err
	}

	s := entryCall{path, entry, domain}
	if !l.beginCall(s) {
		return nil, fmt.Errorf("%s: the last call of %s has not returned yet", path, name)
	}
	type result struct {
		agent agents.Agent
		err   error
	}
	made := make(chan result)
	go func() { // ends when the entry returns, if ever
		r := result{err: errGoexit}
		defer func() {
			l.endCall(s)
			select {
			case made <- r:
			case <-ctx.Done():
				if c, ok := r.agent.(io.Closer); ok {
					recoverPanic(c.Close)
				}
			}
		}()
		r.err = recoverPanic(func() (err error) {
			r.agent, err = newAgent(domain)
			return err
		})
	}()
	select {
	case r := <-made:
		if r.err == nil && r.agent == nil {
			r.err = errors.New("no agent and no error")
		}
		if r.err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, name, r.err)
		}
		return r.agent, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %s has not returned in time", path, name)
	}
}

// file starts to load path if that was not done before.
func (l *Loader) file(path string) (*file, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[path]
	if f != nil {
		if !sameFile(fi, f.info) {
			return nil, errChanged(path)
		}
		return f, nil
	}
	if err := Check(path); err != nil {
		return nil, err
	}
	f = &file{info: fi, reported: fi, loaded: make(chan struct{})}
	if l.files == nil {
		l.files = make(map[string]*file)
	}
	l.files[path] = f
	go func() { // ends when the plugin's init functions have
		defer close(f.loaded)
		init := errGoexit
		var opened error
		defer func() {
			if f.err = explain(path, opened); init != nil {
				f.err = fmt.Errorf("%s: its init functions: %w", path, init)
			}
		}()
		init = recoverPanic(func() error {
			f.plugin, opened = plugin.Open(path)
			return nil
		})
	}()
	return f, nil
}

// Changed reports, once for each change, that path is another file than the
// plugin that was loaded from there.
func (l *Loader) Changed(path string) error {
	fi, err := os.Stat(path)
	if err != nil { // there is nothing new to load
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.files[path]
	if f == nil || sameFile(fi, f.reported) {
		return nil
	}
	f.reported = fi
	if sameFile(fi, f.info) {
		return nil
	}
	return errChanged(path)
}

func errChanged(path string) error {
	return fmt.Errorf("%s has changed since pmcd loaded it, and code can be loaded only once: restart pmcd to use it", path)
}

func sameFile(a, b os.FileInfo) bool {
	return a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// errGoexit is what to say of a plugin's function that neither returns nor
// panics (runtime.Goexit): what called it does not come to say anything.
var errGoexit = errors.New("ended the goroutine that called it")

// recoverPanic makes a panic of f an error.
func recoverPanic(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

func (l *Loader) beginCall(s entryCall) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls[s] {
		return false
	}
	if l.calls == nil {
		l.calls = make(map[entryCall]bool)
	}
	l.calls[s] = true
	return true
}

func (l *Loader) endCall(s entryCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, s)
}

func lookup(path string, p *plugin.Plugin, entry string) (string, func(int) (agents.Agent, error), error) {
	names := Symbols(entry)
	for _, name := range names {
		sym, err := p.Lookup(name)
		if err != nil {
			continue
		}
		newAgent, ok := sym.(func(int) (agents.Agent, error))
		if !ok {
			return "", nil, fmt.Errorf("%s: %s is a %T, not a func(int) (agents.Agent, error)", path, name, sym)
		}
		return name, newAgent, nil
	}
	return "", nil, fmt.Errorf("%s has none of %s", path, strings.Join(names, ", "))
}

// Symbols returns the names to look up in a plugin, in that order, for an
// entry such as simple_init: SimpleInit, since plugins export capitalised
// names only, else NewAgent.
func Symbols(entry string) []string {
	var b strings.Builder
	for part := range strings.SplitSeq(entry, "_") {
		r, n := utf8.DecodeRuneInString(part)
		if n > 0 {
			b.WriteRune(unicode.ToUpper(r))
		}
		b.WriteString(part[n:])
	}
	if name := cmp.Or(b.String(), "NewAgent"); name != "NewAgent" {
		return []string{name, "NewAgent"}
	}
	return []string{"NewAgent"}
}
