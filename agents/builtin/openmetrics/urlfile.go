package openmetrics

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// maxURLFile is the size of the largest *.url file, in bytes.
const maxURLFile = 64 << 10

// A urlFile is a *.url file of the configuration: a URL, and lines that begin with a keyword.
//
//	http://localhost:9100/metrics
//	HEADER: Authorization: token ABC
//	FILTER: EXCLUDE METRIC go_
//	FILTER: OPTIONAL LABEL id
//	METADATA: requests u64 url counter count
//	# pmcd: redirect other.example:9100
//
// The last one is a comment for PCP's agent, which may read the same file.
type urlFile struct {
	url       *url.URL
	text      string // the URL as the file has it
	headers   [][2]string
	filters   []filter
	metadata  []metadata
	redirects []string // other servers that redirects may lead to, as hostPort returns them
	ignored   []string // lines that have no meaning
}

// A filter says what is done with the metrics, or labels, whose name begins with what a regular
// expression matches. The first filter that matches counts.
type filter struct {
	action string // INCLUDE, EXCLUDE or OPTIONAL
	label  bool   // it is for labels
	name   *regexp.Regexp
}

// A metadata has the metadata of the metrics whose name begins with what name matches.
type metadata struct {
	name   *regexp.Regexp
	fields []string // type, instance domain, semantics, units
}

// pattern compiles a regular expression that is to match the beginning of a name.
func pattern(s string) (*regexp.Regexp, error) { return regexp.Compile("^(?:" + s + ")") }

// parseURLFile parses a *.url file. It is an error if there is no URL that can be read, or if a
// regular expression is wrong: without that filter, metrics would get numbers that should have
// none.
func parseURLFile(text string) (*urlFile, error) {
	f := new(urlFile)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if comment, ok := strings.CutPrefix(line, "#"); ok {
			if text, ok := strings.CutPrefix(strings.TrimSpace(comment), "pmcd:"); ok && !f.addOption(strings.Fields(text)) {
				f.ignored = append(f.ignored, line)
			}
			continue
		}
		if f.url == nil {
			u, err := url.Parse(line)
			switch {
			case err != nil:
				return nil, errors.New("the first line is not a URL") // that may have a password
			case u.Scheme != "http" && u.Scheme != "https" && u.Scheme != "file":
				return nil, errors.New("the first line is not a URL of http, https or file")
			}
			f.url, f.text = u, line
			continue
		}
		keyword, rest, _ := strings.Cut(line, ":")
		var err error
		switch keyword {
		case "HEADER":
			err = f.addHeader(rest)
		case "FILTER":
			err = f.addFilter(strings.Fields(rest))
		case "METADATA":
			err = f.addMetadata(strings.Fields(rest))
		default:
			err = errIgnored
		}
		if err == errIgnored {
			f.ignored = append(f.ignored, line)
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", keyword, err)
		}
	}
	if f.url == nil {
		return nil, errors.New("there is no URL")
	}
	return f, nil
}

// errIgnored is the error of a line that has no meaning.
var errIgnored = errors.New("ignored")

// addOption adds what a comment for this agent says, and reports whether it has a meaning.
func (f *urlFile) addOption(words []string) bool {
	if len(words) != 2 || words[0] != "redirect" {
		return false
	}
	host, port, err := net.SplitHostPort(words[1])
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || host == "" || n == 0 {
		return false
	}
	f.redirects = append(f.redirects, net.JoinHostPort(strings.ToLower(host), fmt.Sprint(n)))
	return true
}

func (f *urlFile) addHeader(s string) error {
	name, value, ok := strings.Cut(s, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || name == "" || strings.ContainsAny(name, " \t") {
		return errIgnored
	}
	f.headers = append(f.headers, [2]string{name, value})
	return nil
}

func (f *urlFile) addFilter(words []string) error {
	if len(words) < 3 {
		return errIgnored
	}
	action, what := words[0], words[1]
	switch {
	case what != "METRIC" && what != "LABEL":
		return errIgnored
	case action != "INCLUDE" && action != "EXCLUDE" && (action != "OPTIONAL" || what != "LABEL"):
		return errIgnored
	}
	re, err := pattern(strings.Join(words[2:], " "))
	if err != nil {
		return err
	}
	f.filters = append(f.filters, filter{action: action, label: what == "LABEL", name: re})
	return nil
}

func (f *urlFile) addMetadata(words []string) error {
	if len(words) < 4 {
		return errIgnored
	}
	re, err := pattern(words[0])
	if err != nil {
		return err
	}
	f.metadata = append(f.metadata, metadata{re, words[1:]})
	return nil
}

// action returns what the filters say about a metric or label.
func (f *urlFile) action(name string, label bool) string {
	if f != nil {
		for i := range f.filters {
			if c := &f.filters[i]; c.label == label && c.name.MatchString(name) {
				return c.action
			}
		}
	}
	return "INCLUDE"
}

// metadataOf returns the fields of the METADATA line for a metric, or nil.
func (f *urlFile) metadataOf(name string) []string {
	if f != nil {
		for i := range f.metadata {
			if m := &f.metadata[i]; m.name.MatchString(name) {
				return m.fields
			}
		}
	}
	return nil
}
