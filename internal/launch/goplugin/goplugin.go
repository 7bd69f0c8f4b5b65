// Package goplugin loads agents from Go plugins into the process of pmcd.
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

// A Loader makes agents from plugins. It keeps the plugins that it has loaded,
// because a process can load code only once. Therefore a program should have one
// Loader. The zero value is ready to use, by several goroutines.
type Loader struct {
	mu    sync.Mutex // guards the following
	files map[string]*file
	calls map[entryCall]bool // calls of entries that have not returned yet
}

// A file is a plugin that was loaded or could not be loaded.
type file struct {
	info    os.FileInfo   // of the file that was loaded
	changed func() bool   // of Changes
	loaded  chan struct{} // closed when the following are set
	plugin  *plugin.Plugin
	err     error
}

// An entryCall is a call of an entry.
type entryCall struct {
	path, entry string
	domain      int
}

// Open loads the plugin path, if it is not loaded yet, and calls its entry, which
// makes an agent for domain. It returns when ctx ends at the latest. The entry is
// that of the line in pmcd.conf; [Symbols] returns its name in the plugin. The error
// wraps [ErrNotPlugin] if the file is not a plugin.
//
// A plugin cannot be unloaded: a later Open calls the entry of the same code. It
// returns an error if the file has changed since. A panic of the plugin becomes an
// error. An entry that does not return goes on in the background, and is not called
// again before it has returned.
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
		return nil, fmt.Errorf("%s: the last call of %s has not returned yet, so it is not called again", path, name)
	}
	type result struct {
		agent agents.Agent
		err   error
	}
	made := make(chan result)
	go func() { // ends when the entry returns
		r := result{err: errGoexit}
		defer func() {
			l.endCall(s)
			select {
			case made <- r:
			case <-ctx.Done():
				if c, ok := r.agent.(io.Closer); ok {
					RecoverPanic(c.Close)
				}
			}
		}()
		r.err = RecoverPanic(func() (err error) {
			r.agent, err = newAgent(domain)
			return err
		})
	}()
	select {
	case r := <-made:
		if r.err == nil && r.agent == nil {
			r.err = errors.New("returned neither an agent nor an error")
		}
		if r.err != nil {
			return nil, fmt.Errorf("%s: %s: %w", path, name, r.err)
		}
		return r.agent, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%s: %s has not returned in time", path, name)
	}
}

// file returns the file at path. It starts to load it if that was not done before.
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
	f = &file{info: fi, changed: Changes(path, fi), loaded: make(chan struct{})}
	if l.files == nil {
		l.files = make(map[string]*file)
	}
	l.files[path] = f
	go func() { // ends when the plugin's init functions have returned
		defer close(f.loaded)
		init := errGoexit
		var opened error
		defer func() {
			if f.err = explain(path, opened); init != nil {
				f.err = fmt.Errorf("%s: its init functions: %w", path, init)
			}
		}()
		init = RecoverPanic(func() error {
			f.plugin, opened = plugin.Open(path)
			return nil
		})
	}()
	return f, nil
}

// Changed returns an error if the file at path is no longer the one that was
// loaded. It does so once for each change.
func (l *Loader) Changed(path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if f := l.files[path]; f != nil && f.changed() {
		return errChanged(path)
	}
	return nil
}

// errChanged returns the error of a file that was replaced after it was loaded.
func errChanged(path string) error {
	return fmt.Errorf("%s has changed since pmcd loaded it, and code can be loaded only once: restart pmcd to use it", path)
}

// errGoexit is the error of a function of a plugin that calls runtime.Goexit. Then
// the code after the call is not reached: deferred functions report the error.
var errGoexit = errors.New("ended the goroutine that called it")

// RecoverPanic calls f, which is code of an agent, and returns a panic as an error.
func RecoverPanic(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panicked: %v\n%s", v, debug.Stack())
		}
	}()
	return f()
}

// beginCall records the call s of an entry. It is false if the same call has not
// returned yet.
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

// endCall records that the call s has returned.
func (l *Loader) endCall(s entryCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, s)
}

// lookup finds the function of an entry, and returns its name in the plugin.
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
	return "", nil, fmt.Errorf("%s has no function %s", path, strings.Join(names, " or "))
}

// Symbols returns the names to look up in a plugin for an entry, in this order: for
// simple_init SimpleInit, because plugins export only capitalised names, then
// NewAgent.
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
