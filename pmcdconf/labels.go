package pmcdconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A Label is a label of this host, from a label file (pmLookupLabels(3)).
type Label struct {
	Name     string          // with dots where objects were nested
	Value    json.RawMessage // JSON without white space
	Optional bool            // from labels/optional (PM_LABEL_OPTIONAL)
	File     string          // path of the file; "" for ParseLabels
}

// One label set holds at most PM_MAXLABELS labels and PM_MAXLABELJSONLEN bytes of
// JSON. The limits for files are lower, because pmcd adds labels of its own.
const (
	maxLabelFile  = 1<<16 - 1 // bytes; PM_MAXLABELJSONLEN
	maxLabelName  = 1<<8 - 1  // bytes; the length is one byte in a PDU
	maxLabels     = 1<<8 - 1 - 8
	maxLabelBytes = 1<<16 - 1 - 1024
	maxLabelFiles = 1000
	maxLabelDepth = 32 // objects in objects
)

// LoadLabels reads the label files in dir/labels and dir/labels/optional, where
// dir is $PCP_SYSCONF_DIR. It reads the files of each directory in the order of
// their names, without hidden files and directories. If labels have the same
// name, the last one counts. LoadLabels returns them sorted by name.
//
// LoadLabels skips files that are not one JSON object and labels with invalid
// names, and calls warn, unless it is nil. If dir/labels does not exist, the
// error is fs.ErrNotExist.
func LoadLabels(dir string, warn func(error)) ([]Label, error) {
	if warn == nil {
		warn = func(error) {}
	}
	set := make(map[string]Label)
	dir = filepath.Join(dir, "labels")
	if err := loadLabelDir(set, dir, false, warn); err != nil {
		return nil, err
	}
	if err := loadLabelDir(set, filepath.Join(dir, "optional"), true, warn); err != nil && !errors.Is(err, fs.ErrNotExist) {
		warn(err)
	}
	return bounded(set, warn), nil
}

// ParseLabels returns the labels in the text of one label file, sorted by name and
// not optional. Where LoadLabels calls warn, ParseLabels returns an error.
func ParseLabels(text []byte) ([]Label, error) {
	var errs []error
	bad := func(err error) { errs = append(errs, err) }
	labels, err := parseLabels(text, bad)
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
		if len(list) == maxLabels || size+n > maxLabelBytes {
			err := fmt.Errorf("no room for label %s", name)
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

func loadLabelDir(set map[string]Label, dir string, optional bool, warn func(error)) error {
	entries, err := os.ReadDir(dir) // sorted
	if err != nil {
		return err
	}
	n := 0
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if n++; n > maxLabelFiles {
			warn(fmt.Errorf("%s: more than %d files", dir, maxLabelFiles))
			return nil
		}
		text, err := readFile(path, maxLabelFile)
		if err != nil {
			warn(err)
			continue
		}
		labels, err := parseLabels(text, func(err error) { warn(fmt.Errorf("%s: %w", path, err)) })
		if err != nil {
			warn(&Error{Pos: labelPos(path, text, err), Warning: true, Err: err})
			continue
		}
		for _, l := range labels {
			l.Optional, l.File = optional, path
			set[l.Name] = l
		}
	}
	return nil
}

// labelPos returns the place of err in the text of a file.
func labelPos(path string, text []byte, err error) Pos {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return Pos{File: path}
	}
	before := text[:min(max(syntax.Offset-1, 0), int64(len(text)))]
	return Pos{path, bytes.Count(before, []byte("\n")) + 1, len(before) - bytes.LastIndexByte(before, '\n')}
}

var errNotObject = errors.New("not a JSON object")

// parseLabels returns the labels of a file in its order. An error concerns the whole
// file. For an invalid label it calls warn.
func parseLabels(text []byte, warn func(error)) ([]Label, error) {
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
	if depth > maxLabelDepth {
		return fmt.Errorf("label %s: objects are nested more than %d deep", prefix, maxLabelDepth)
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
		if !validLabelName(name) {
			warn(fmt.Errorf("bad label name %q", prefix+name))
			continue
		}
		if name = prefix + name; len(name) > maxLabelName {
			warn(fmt.Errorf("label name of %d characters", len(name)))
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

// validLabelName reports whether name consists of letters, digits, underscores and
// dots, as in PCP 7. In the manual and in PCP 6 the first must be a letter.
func validLabelName(name string) bool {
	for _, c := range []byte(name) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.':
		default:
			return false
		}
	}
	return name != ""
}

// LabelsConf is the content of labels.conf(5).
type LabelsConf struct {
	MachineIDHash string // how to show the machine id: "none" (the default) or "sha256"
}

// LoadLabelsConf reads dir/labels.conf up to the first section other than
// [global]. If the file does not exist, the error is fs.ErrNotExist and the
// LabelsConf has the default. LoadLabelsConf calls warn, unless it is nil, for
// lines that it ignores.
//
// As libpcp does, it ignores text after a value, and a later "none" does not undo
// "sha256": a file with "sha256" in any line must not expose the machine id.
func LoadLabelsConf(dir string, warn func(error)) (LabelsConf, error) {
	if warn == nil {
		warn = func(error) {}
	}
	conf := LabelsConf{MachineIDHash: "none"}
	path := filepath.Join(dir, "labels.conf")
	text, err := readFile(path, maxLabelFile)
	if err != nil {
		return conf, err
	}
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' || strings.HasPrefix(line, "[global]") {
			continue
		}
		if line[0] == '[' {
			break
		}
		const separators = " \t=:"
		i := strings.IndexAny(line, separators)
		if i < 0 {
			i = len(line)
		}
		key, value := line[:i], strings.TrimLeft(line[i:], separators)
		switch {
		case key == "machineid_hash" && strings.HasPrefix(value, "sha256"):
			conf.MachineIDHash = "sha256"
		case key == "machineid_hash" && strings.HasPrefix(value, "none"):
		default:
			warn(&Error{Pos: Pos{path, number, 0}, Warning: true, Err: fmt.Errorf("%q is ignored", line)})
		}
	}
	return conf, nil
}
