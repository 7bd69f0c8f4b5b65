package pmcdconf

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestParseFileErrors(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pmcd.conf")
	if conf, err := ParseFile(t.Context(), path, fakeOptions); conf != nil || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: got %v, %v", conf, err)
	}
	if err := os.WriteFile(path, []byte("a 1 dso f /x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if conf, err := ParseFile(t.Context(), path, fakeOptions); err != nil || len(conf.Agents) != 1 || conf.Access == nil {
		t.Errorf("got %v, %v", conf, err)
	}
	// An access file that cannot be read is an error, unlike a missing one.
	if err := os.Symlink("pmcd.conf.access", path+".access"); err != nil {
		t.Fatal(err)
	}
	if conf, err := ParseFile(t.Context(), path, fakeOptions); err == nil {
		t.Errorf("access loop: got %v", conf)
	}
}

// What is not a regular file is not waited for and has no content.
func TestParseFileOpensRegularFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pmcd.conf")
	for _, tt := range []struct {
		name, want string
		make       func(path string) error
	}{
		{"a FIFO", "not a regular file", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"a directory", "not a regular file", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"a device", "not a regular file", func(path string) error { return os.Symlink("/dev/zero", path) }},
		{"a sparse file", "NUL character", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}},
	} {
		for _, file := range []string{path, path + ".access"} {
			if err := errors.Join(os.RemoveAll(path+".access"), os.RemoveAll(path), os.WriteFile(path, []byte("a 1 dso f /x\n"), 0o600), os.RemoveAll(file), tt.make(file)); err != nil {
				t.Fatal(err)
			}
			if _, err := ParseFile(t.Context(), path, fakeOptions); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s in the place of %s: got %v, want %s", tt.name, filepath.Base(file), err, tt.want)
			}
		}
	}
}

// A hanging is a Resolver of a name server that does not answer.
type hanging struct {
	Resolver
	asked, open chan struct{}
}

func (h *hanging) Hosts(string) ([]netip.Addr, error) {
	h.asked <- struct{}{}
	<-h.open
	return nil, errors.New("no such host")
}

func TestParseFileEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pmcd.conf")
	if err := os.WriteFile(path, []byte("a 1 dso f /x\n[access]\nallow far : all;\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	h := &hanging{fakeOptions.Resolver, make(chan struct{}, 10), make(chan struct{})}
	defer close(h.open) // the reading goroutine ends
	opt := fakeOptions
	opt.Resolver = h
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		conf, err := ParseFile(ctx, path, opt)
		if conf != nil {
			err = fmt.Errorf("a configuration of %d agents, and error %v", len(conf.Agents), err)
		}
		ended <- err
	}()
	<-h.asked
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
