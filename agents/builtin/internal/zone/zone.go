// Package zone finds the time zone of the host, as metrics of PCP have it.
package zone

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A Zone is the time zone of the host. It follows changes of the file. The
// environment variable TZ is ignored, as in C pmcd.
type Zone struct {
	Name string // such as :Europe/Berlin, or ""; not updated
	path string
	last atomic.Pointer[zoneFile]
}

// A zoneFile is what was read of the file of the zone.
type zoneFile struct {
	loc  *time.Location
	info os.FileInfo
}

const (
	maxZoneFile  = 64 << 10
	maxZoneFiles = 5000 // zoneinfo has about 1800
)

// New returns the zone in a file. If the file is a symbolic link, the zone's name
// is in its target; else it is the name of the first file below dir with the same
// contents.
func New(path, dir string) *Zone {
	z := &Zone{path: path}
	if path == "" {
		return z
	}
	if target, err := os.Readlink(path); err == nil {
		if _, name, ok := strings.Cut(target, "zoneinfo/"); ok && name != "" {
			z.Name = ":" + name
			return z
		}
	}
	if name := searchZone(path, dir); name != "" {
		z.Name = ":" + name
	}
	return z
}

// searchZone returns the name of the first file below dir with the same contents as
// the one at path, or "".
func searchZone(path, dir string) string {
	if dir == "" {
		return ""
	}
	want, err := regular.ReadFile(path, maxZoneFile)
	if err != nil {
		return ""
	}
	var found string
	left := maxZoneFiles
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case err != nil:
			return nil
		case d.IsDir():
			if name == "posix" || name == "right" { // copies of all zones
				return fs.SkipDir
			}
			return nil
		case name == "localtime" || name == "posixrules" || !d.Type().IsRegular():
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() != int64(len(want)) {
			return nil
		}
		if b, err := regular.ReadFile(p, maxZoneFile); err == nil && bytes.Equal(b, want) {
			found = name
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// Location returns the present zone of the host; UTC if there is none.
func (z *Zone) Location() *time.Location {
	info, err := os.Stat(z.path)
	if err != nil {
		z.last.Store(nil)
		return time.UTC
	}
	if f := z.last.Load(); f != nil && os.SameFile(info, f.info) && info.ModTime().Equal(f.info.ModTime()) && info.Size() == f.info.Size() {
		return f.loc
	}
	f := &zoneFile{time.UTC, info}
	if b, err := regular.ReadFile(z.path, maxZoneFile); err == nil {
		if loc, err := time.LoadLocationFromTZData("", b); err == nil {
			f.loc = loc
		}
	}
	z.last.Store(f)
	return f.loc
}

// Text returns a zone at time t in the POSIX format of TZ.
func Text(t time.Time, zone *time.Location) string { return posixTZ(t.In(zone).Zone()) }

// posixTZ returns the value of TZ for an abbreviation and an offset in seconds east of
// UTC. Numbers in TZ are positive west of UTC, and there is none for UTC.
func posixTZ(name string, east int) string {
	sign, minutes := '-', east/60
	if east < 0 {
		sign, minutes = '+', -minutes
	}
	switch {
	case minutes == 0:
		return name
	case minutes%60 == 0:
		return fmt.Sprintf("%s%c%d", name, sign, minutes/60)
	}
	return fmt.Sprintf("%s%c%d:%02d", name, sign, minutes/60, minutes%60)
}
