package peer

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
)

// UnderTest is the path of the daemon to test: cmd/pmcd, built once, or what PMCD_UNDER_TEST
// names.
var UnderTest = sync.OnceValues(func() (string, error) {
	if p := os.Getenv("PMCD_UNDER_TEST"); p != "" {
		return filepath.Abs(p)
	}
	// Scripts know pmcd by its argv[0], so it keeps its name.
	return Program("pmcd", "./cmd/pmcd")
})

// Ctl is the path of pmcdctl, built once.
var Ctl = sync.OnceValues(func() (string, error) { return Program("pmcdctl", "./cmd/pmcd/pmcdctl") })

// Program builds a program of the module, with the race detector if this test program has it.
func Program(name, pkg string) (string, error) {
	race := debug.BuildSetting{Key: "-race", Value: "true"}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, race) {
		return build(name, pkg, "-race")
	}
	return build(name, pkg)
}

// PMDA builds the program of a built-in agent, and returns the path of pmdaNAME: as packages have it,
// a link to pmdas, except for openmetrics.
func PMDA(name string) (string, error) { return pmda(name, Program) }

// PlainPMDA is PMDA with Plain.
func PlainPMDA(name string) (string, error) { return pmda(name, Plain) }

func pmda(name string, build func(name, pkg string) (string, error)) (string, error) {
	if name == "openmetrics" {
		return build("pmdas/pmdaopenmetrics", "./agents/builtin/openmetrics/pmdaopenmetrics")
	}
	program, err := build("pmdas/pmdas", "./agents/builtin/pmdas")
	if err != nil {
		return "", err
	}
	link := filepath.Join(filepath.Dir(program), "pmda"+name)
	if err := os.Symlink("pmdas", link); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return link, nil
}

// Plain builds a program of the module as "make build" does: without the race
// detector, and with the revision in it, if that is known.
func Plain(name, pkg string) (string, error) {
	return build(filepath.Join("plain", name), pkg, "-buildvcs=auto")
}

// Plugin builds a Go plugin of the module for the daemon under test, which
// loads only what was built as it was.
func Plugin(name, pkg string) (string, error) {
	path, err := UnderTest()
	if err != nil {
		return "", err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return "", err
	}
	flags := []string{"-buildmode=plugin"}
	for _, s := range info.Settings {
		switch s.Key {
		case "-race", "-trimpath", "-tags":
			flags = append(flags, s.Key+"="+s.Value)
		}
	}
	return build(name, pkg, flags...)
}

// Static builds a program of the module for a processor, as releases do that have no cgo.
func Static(goarch, name, pkg string) (string, error) {
	return buildWith([]string{"CGO_ENABLED=0", "GOARCH=" + goarch}, filepath.Join(goarch, name), pkg)
}

// build builds a package of the module for this test program.
func build(name, pkg string, flags ...string) (string, error) {
	return buildWith(nil, name, pkg, flags...)
}

// buildWith is build with env added to the environment.
func buildWith(env []string, name, pkg string, flags ...string) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	dir, err := scratchDir()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "bin", name)
	cmd := exec.Command("go", append(append([]string{"build", "-buildvcs=false", "-o", bin}, flags...), pkg)...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %v\n%s", pkg, err, out)
	}
	return bin, nil
}
