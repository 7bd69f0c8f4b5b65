// Package version has the version of pmcd and pmcdctl.
package version

import (
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"

	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// release is the version of the sources. Between two releases it is the next one.
const release = "0.1.0"

// Of returns the version of this program, which is the value of pmcd.build. It is build if
// a packager has set that. Otherwise it is release, with the revision if that is known.
func Of(build string) string {
	if build != "" {
		return build
	}
	info, _ := debug.ReadBuildInfo()
	return fromInfo(info)
}

// fromInfo is the version of a program with this information in it, which may
// be nil. A build from a checkout and "go install PACKAGE@REVISION" have the
// revision; from an unpacked archive, and in a test, there is none.
func fromInfo(info *debug.BuildInfo) string {
	if info == nil {
		return release
	}
	// The go command's version of a revision without a tag.
	pseudoVersion := regexp.MustCompile(`-(?:0\.)?\d{14}-([0-9a-f]{12})(\+dirty)?$`)
	revision, changed := "", false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	switch tag := info.Main.Version; {
	case pseudoVersion.MatchString(tag):
		m := pseudoVersion.FindStringSubmatch(tag)
		revision, changed = m[1], changed || m[2] != ""
	case strings.HasPrefix(tag, "v"):
		return tag[1:]
	}
	if revision == "" {
		return release
	}
	text := release + "+git." + revision
	if changed {
		text += ".dirty"
	}
	return text
}

// Text returns what -V and --version print. Programs with cobra print it by themselves: the template
// that cobra has for a version would link text/template and with it, because that calls methods by
// their names, the exported methods of all types, which are 2 MB.
func Text(name, version string) string {
	return fmt.Sprintf("%s %s, with the behaviour of PCP %s\n", name, version, pcpconf.Version)
}
