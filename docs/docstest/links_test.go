package docstest

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	code    = regexp.MustCompile("`[^`\n]*`")
)

// anchors returns the anchors of the headings of a document, as GitHub and most
// others make them.
func anchors(text string) map[string]bool {
	_, prose := split(text)
	found := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(prose, -1) {
		found[anchor(m[1])] = true
	}
	return found
}

func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

// Each link in a document leads to a file, and to a heading if it says so. Links to
// other hosts are not followed.
func TestLinks(t *testing.T) {
	docs := documents(t)
	n := 0
	for name, text := range docs {
		for _, err := range brokenLinks(docs, name, text, &n) {
			t.Error(err)
		}
	}
	if n < 100 {
		t.Errorf("only %d links were found", n)
	}
}

// brokenLinks returns what is wrong with the links of a document, and adds the
// number of links to n.
func brokenLinks(docs map[string]string, name, text string, n *int) (errs []error) {
	_, prose := split(text)
	for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(prose, ""), -1) {
		target := m[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		*n++
		path, fragment, _ := strings.Cut(target, "#")
		if path == "" {
			if !anchors(text)[fragment] {
				errs = append(errs, errors.New(name+": "+target+": no such heading"))
			}
			continue
		}
		to := filepath.Join(filepath.Dir(name), path)
		if _, err := os.Stat(filepath.Join(repo, to)); err != nil {
			errs = append(errs, errors.New(name+": "+target+": no such file"))
		} else if to, ok := docs[to]; fragment != "" && (!ok || !anchors(to)[fragment]) {
			errs = append(errs, errors.New(name+": "+target+": no such heading"))
		}
	}
	return errs
}

func TestBrokenLinks(t *testing.T) {
	docs := map[string]string{"README.md": "# The `one`, and two\n\n```sh\n# not one\n```\n"}
	for text, want := range map[string]int{
		"[a](README.md)":                    0,
		"[a](README.md#the-one-and-two)":    0,
		"[a](#b)":                           1,
		"# B\n\n[a](#b)":                    0,
		"[a](README.md#not-one)":            1,
		"[a](missing.md)":                   1,
		"![a](missing.svg)":                 1,
		"[a](https://example.org/missing)":  0,
		"`[a](missing.md)`":                 0,
		"```\n[a](missing.md)\n```\n":       0,
		"text\n\n    [a](missing.md)\n\nb":  0,
		"[a](docs/README.md) [b](gone.md)":  1,
		"[a](docs) [b](docs/docstest)\n":    0,
		"[a](docs/README.md#documents)\n":   1, // it is not in this map
		"* item\n    [a](missing.md)\n":     1, // a line of the item
		"[a](README.md#The-one-and-two)\n":  1,
		"see [a](x.md), [b](y.md#c) and\nd": 2,
	} {
		t.Run(text, func(t *testing.T) {
			n := 0
			docs["x"] = text
			if got := brokenLinks(docs, "x", text, &n); len(got) != want {
				t.Errorf("%q: %v, want %d", text, got, want)
			}
		})
	}
}
