// Package hostlabels reads the labels of this host: label files and labels.conf(5).
//
// Package hostlabels serves the programs of this module, and may change in any release.
package hostlabels

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gopcp/pmcd/pmcdconf"
	"github.com/gopcp/pmcd/pmcdconf/regular"
)

// A Label is a label of this host, from a label file (pmLookupLabels(3)).
type Label struct {
	Name     string          // with dots where objects were nested
	Value    json.RawMessage // JSON without white space
	Optional bool            // from labels/optional (PM_LABEL_OPTIONAL)
	File     string          // path of the file; "" for Parse
}

// One label set holds at most PM_MAXLABELS labels and PM_MAXLABELJSONLEN bytes of
// JSON. The limits for files are lower, because pmcd adds labels of its own.
const (
	maxFile         = 1<<16 - 1 // bytes; PM_MAXLABELJSONLEN
	maxName         = 1<<8 - 1  // bytes; the length is one byte in a PDU
	maxOfFiles      = 1<<8 - 1 - 8
	maxBytesOfFiles = 1<<16 - 1 - 1024
	maxFiles        = 1000
	maxDepth        = 32 // objects in objects
)

// Load reads the label files in dir/labels and dir/labels/optional, where
// dir is $PCP_SYSCONF_DIR. It reads the files of each directory in the order of
// their names, without hidden files and directories. If labels have the same
// name, the last one counts. Load returns them sorted by name.
//
// Load skips files that are not one JSON object and labels with invalid names,
// and calls warn, unless it is nil. A warning about the form of a file is a
// *pmcdconf.Error. If dir/labels does not exist, the error is fs.ErrNotExist.
// Only regular files are read, so that Load does not block.
func Load(dir string, warn func(error)) ([]Label, error) {
	labels, _, err := LoadSize(dir, warn)
	return labels, err
}

// A Size is how much LoadSize has read.
type Size struct {
	Files int // with those that are ignored
	Bytes int
}

// LoadSize is Load, and returns how much it has read.
func LoadSize(dir string, warn func(error)) ([]Label, Size, error) {
	var size Size
	if warn == nil {
		warn = func(error) {}
	}
	set := make(map[string]Label)
	dir = filepath.Join(dir, "labels")
	if err := loadDir(set, &size, dir, false, warn); err != nil {
		return nil, size, err
	}
	if err := loadDir(set, &size, filepath.Join(dir, "optional"), true, warn); err != nil && !errors.Is(err, fs.ErrNotExist) {
		warn(err)
	}
	return bounded(set, warn), size, nil
}

// Parse returns the labels in the text of one label file, sorted by name and
// not optional. Where Load calls warn, Parse returns an error.
func Parse(text []byte) ([]Label, error) {
	var errs []error
	bad := func(err error) { errs = append(errs, err) }
	labels, err := parse(text, bad)
	if err != nil {
		return nil, err
	}
	set := make(map[string]Label)
	for _, l := range labels {
		set[l.Name] = l
	}
	list := bounded(set, bad)
	return list, errors.Join(errs...)
}

// bounded returns as many labels as fit in the limits, sorted by name.
func bounded(set map[string]Label, warn func(error)) (list []Label) {
	size := len("{}")
	for _, name := range slices.Sorted(maps.Keys(set)) {
		l := set[name]
		n := len(`"":,`) + len(name) + len(l.Value)
		if len(list) == maxOfFiles || size+n > maxBytesOfFiles {
			err := fmt.Errorf("no room for label %s, which is left out", name)
			if l.File != "" {
				err = fmt.Errorf("%s: %w", l.File, err)
			}
			warn(err)
			continue
		}
		size += n
		list = append(list, l)
	}
	return list
}

func loadDir(set map[string]Label, size *Size, dir string, optional bool, warn func(error)) error {
	entries, err := regular.ReadDir(dir) // sorted
	if err != nil {
		return err
	}
	n := 0
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if n++; n > maxFiles {
			warn(fmt.Errorf("%s: more than %d files; the others are ignored", dir, maxFiles))
			return nil
		}
		text, err := regular.ReadFile(path, maxFile)
		size.Files++
		size.Bytes += len(text)
		if err != nil {
			warn(fmt.Errorf("%w; the file is ignored", err))
			continue
		}
		labels, err := parse(text, func(err error) { warn(fmt.Errorf("%s: %w", path, err)) })
		if err != nil {
			warn(&pmcdconf.Error{Pos: position(path, text, err), Warning: true, Err: fmt.Errorf("%w; the file is ignored", err)})
			continue
		}
		for _, l := range labels {
			l.Optional, l.File = optional, path
			set[l.Name] = l
		}
	}
	return nil
}

// position returns the position of err in the text of a file.
func position(path string, text []byte, err error) pmcdconf.Pos {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return pmcdconf.Pos{File: path}
	}
	before := text[:min(max(syntax.Offset-1, 0), int64(len(text)))]
	return pmcdconf.Pos{
		File: path,
		Line: bytes.Count(before, []byte("\n")) + 1,
		Col:  len(before) - bytes.LastIndexByte(before, '\n'),
	}
}

var errNotObject = errors.New("not a JSON object")

// parse returns the labels of a file in its order. An error concerns the whole
// file. For an invalid label it calls warn.
func parse(text []byte, warn func(error)) ([]Label, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errNotObject
	}
	if !json.Valid(text) {
		var v any
		if err := json.Unmarshal(text, &v); err != nil {
			return nil, err
		}
		return nil, errNotObject
	}
	if text = bytes.TrimLeft(text, " \t\r\n"); text[0] != '{' {
		return nil, errNotObject
	}
	var list []Label
	return list, flatten(&list, "", text, 0, warn)
}

// flatten appends the members of an object, which is valid JSON.
//
// C pmcd 6.0.3 differs: it also flattens objects in arrays, and rejects a file with
// an invalid name.
func flatten(list *[]Label, prefix string, object []byte, depth int, warn func(error)) error {
	if depth > maxDepth {
		return fmt.Errorf("label %s: objects are nested more than %d deep", prefix, maxDepth)
	}
	dec := json.NewDecoder(bytes.NewReader(object))
	if _, err := dec.Token(); err != nil { // the brace
		return err
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return err
		}
		name, ok := tok.(string)
		if !ok {
			return errNotObject
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, value); err != nil {
			return err
		}
		value = compact.Bytes()
		if !validName(name) {
			warn(fmt.Errorf("bad label name %q, which is left out", prefix+name))
			continue
		}
		if name = prefix + name; len(name) > maxName {
			warn(fmt.Errorf("label name of %d characters, which is left out", len(name)))
			continue
		}
		if value[0] == '{' && len(value) > len("{}") {
			if err := flatten(list, name+".", value, depth+1, warn); err != nil {
				return err
			}
			continue
		}
		*list = append(*list, Label{Name: name, Value: value})
	}
	return nil
}

// validName reports whether name consists of letters, digits, underscores and
// dots, as in PCP 7. In the manual and in PCP 6 the first must be a letter.
func validName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.':
		default:
			return false
		}
	}
	return name != ""
}
