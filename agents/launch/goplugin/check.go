package goplugin

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// ErrNotPlugin is wrapped by errors about files that are no Go plugins, such
// as PMDA DSOs written in C.
var ErrNotPlugin = errors.New("not a Go plugin")

// Check reports why pmcd must not pass path to plugin.Open, or nil.
//
// It has to be called first: plugin.Open returns an error for a Go plugin
// that does not fit, but any other shared object ends the process, and no
// recover can stop it.
func Check(path string) error {
	if fi, err := os.Stat(path); err != nil {
		return err
	} else if !fi.Mode().IsRegular() { // reading one could take for ever
		return fmt.Errorf("%s is %w: not a file", path, ErrNotPlugin)
	}
	theirs, err := buildinfo.ReadFile(path)
	var open *fs.PathError
	switch {
	case errors.As(err, &open):
		return err
	case err != nil:
		return fmt.Errorf("%s is %w: %w", path, ErrNotPlugin, err)
	}
	if mode := setting(theirs, "-buildmode"); mode != "plugin" {
		return fmt.Errorf("%s is %w: it is built with -buildmode=%s", path, ErrNotPlugin, mode)
	}
	ours, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("pmcd carries no build information")
	}
	return compare(path, theirs, ours)
}

// compare says how the builds of a plugin and of pmcd differ, as far as the
// runtime is known not to load one into the other.
func compare(path string, theirs, ours *debug.BuildInfo) error {
	if theirs.GoVersion != runtime.Version() {
		return fmt.Errorf("%s is built with %s, pmcd with %s", path, theirs.GoVersion, runtime.Version())
	}
	for _, key := range []string{"GOOS", "GOARCH", "-race", "-msan", "-asan", "-cover", "-trimpath", "-tags"} {
		a, b := setting(theirs, key), setting(ours, key)
		if a != b {
			return fmt.Errorf("%s is built with %s, pmcd with %s", path, flagText(key, a), flagText(key, b))
		}
	}
	return nil
}

// flagText is how a setting is given to the go command.
func flagText(key, value string) string {
	if value == "" {
		return "no " + key
	}
	return key + "=" + value
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

// explain adds to an error of plugin.Open what an admin can do.
func explain(path string, err error) error {
	const other = "different version of package "
	if err == nil {
		return nil
	}
	_, pkg, ok := strings.Cut(err.Error(), other)
	if !ok {
		return err
	}
	pkg, _, _ = strings.Cut(pkg, " ")
	if theirs, err2 := buildinfo.ReadFile(path); err2 == nil {
		if ours, ok := debug.ReadBuildInfo(); ok {
			return fmt.Errorf("%w: the plugin has it from %s, pmcd from %s; see docs/plugins.md",
				err, origin(theirs, pkg), origin(ours, pkg))
		}
	}
	return err
}

// origin says which version of which module a package in a build is from.
func origin(info *debug.BuildInfo, pkg string) string {
	var best *debug.Module
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if (pkg == m.Path || strings.HasPrefix(pkg, m.Path+"/")) && (best == nil || len(m.Path) > len(best.Path)) {
			best = m
		}
	}
	switch {
	case best == nil:
		return info.GoVersion
	case best.Replace != nil:
		return fmt.Sprintf("%s (replaced by %s)", version(best), version(best.Replace))
	}
	return version(best)
}

func version(m *debug.Module) string {
	if m.Version == "" || m.Version == "(devel)" {
		return m.Path + " from a directory"
	}
	return m.Path + " " + m.Version
}
