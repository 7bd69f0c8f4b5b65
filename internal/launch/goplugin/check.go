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

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// ErrNotPlugin is wrapped by errors about files that are not Go plugins, such as
// PMDA DSOs written in C.
var ErrNotPlugin = errors.New("not a Go plugin")

// Check returns an error if pmcd must not pass path to plugin.Open.
//
// It must be called before plugin.Open, which returns an error for a Go plugin
// that does not fit, but ends the process for any other shared object. Recover
// does not help.
func Check(path string) error {
	if fi, err := os.Stat(path); err != nil {
		return err
	} else if !fi.Mode().IsRegular() {
		return fmt.Errorf("%s is %w: not a file", path, ErrNotPlugin)
	}
	theirs, err := buildOf(path)
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
		return errors.New("pmcd has no build information")
	}
	return compare(path, theirs, ours)
}

// buildOf returns the build information in a file.
func buildOf(path string) (*debug.BuildInfo, error) {
	f, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return buildinfo.Read(f)
}

// compare returns an error if the builds of a plugin and of pmcd differ in a
// setting for which the runtime is known to refuse the plugin.
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

// flagText returns a setting as an option of the go command.
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

// explain adds to an error of plugin.Open where the two versions of a package come
// from.
func explain(path string, err error) error {
	const differs = "different version of package "
	if err == nil {
		return nil
	}
	_, pkg, ok := strings.Cut(err.Error(), differs)
	if !ok {
		return err
	}
	pkg, _, _ = strings.Cut(pkg, " ")
	if theirs, err2 := buildOf(path); err2 == nil {
		if ours, ok := debug.ReadBuildInfo(); ok {
			return fmt.Errorf("%w: the plugin has it from %s, pmcd from %s; see docs/plugins.md",
				err, origin(theirs, pkg), origin(ours, pkg))
		}
	}
	return err
}

// origin returns the module and the version that a package in a build comes from.
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
