package pmcd

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A zone is the time zone of the host. The environment variable TZ does not
// matter, as it does not to C pmcd, and a change of the host's zone is noticed.
type zone struct {
	path string
	name string // such as :Europe/Berlin, or ""; never found out again
	loc  *time.Location
	info os.FileInfo // of the file that loc is from
}

const (
	maxZoneFile  = 64 << 10
	maxZoneFiles = 5000 // of which there are about 1800
)

// newZone returns the zone in a file. Its name is in the file's being a link;
// else it is that of the first zone in dir that has the same content.
func newZone(path, dir string) zone {
	z := zone{path: path, loc: time.UTC}
	if path == "" {
		return z
	}
	if target, err := os.Readlink(path); err == nil {
		if _, name, ok := strings.Cut(target, "zoneinfo/"); ok && name != "" {
			z.name = ":" + name
			return z
		}
	}
	if name := searchZone(path, dir); name != "" {
		z.name = ":" + name
	}
	return z
}

// searchZone returns the name of the file below dir that is like the one at
// path, or "".
func searchZone(path, dir string) string {
	info, err := os.Stat(path)
	if err != nil || dir == "" || !info.Mode().IsRegular() || info.Size() > maxZoneFile {
		return ""
	}
	want, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	var found string
	left := maxZoneFiles
	buf := make([]byte, maxZoneFile)
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if left--; left < 0 {
			return fs.SkipAll
		}
		name, _ := filepath.Rel(dir, p)
		switch {
		case err != nil:
			return nil
		case d.IsDir():
			if name == "posix" || name == "right" { // the same zones again
				return fs.SkipDir
			}
			return nil
		case name == "localtime" || name == "posixrules":
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() != int64(len(want)) {
			return nil
		}
		if b, err := readSmall(p, buf); err == nil && bytes.Equal(b, want) {
			found = name
			return fs.SkipAll
		}
		return nil
	})
	return found
}

// location returns the zone as it is now; UTC if there is none.
func (z *zone) location() *time.Location {
	info, err := os.Stat(z.path)
	if err != nil {
		z.loc, z.info = time.UTC, nil
		return z.loc
	}
	if z.info != nil && os.SameFile(info, z.info) && info.ModTime().Equal(z.info.ModTime()) && info.Size() == z.info.Size() {
		return z.loc
	}
	z.loc, z.info = time.UTC, info
	if !info.Mode().IsRegular() || info.Size() > maxZoneFile {
		return z.loc
	}
	if b, err := os.ReadFile(z.path); err == nil {
		if loc, err := time.LoadLocationFromTZData("", b); err == nil {
			z.loc = loc
		}
	}
	return z.loc
}

// timezone returns the zone at a time as TZ may say it in POSIX.
func (z *zone) timezone(t time.Time) string { return posixTZ(t.In(z.location()).Zone()) }

// posixTZ returns what TZ says for an abbreviation and seconds east of UTC: what
// is west of it is positive, and what is at it has no number at all.
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
