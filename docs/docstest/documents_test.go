package docstest

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// repo is the directory of the Makefile.
const repo = "../.."

// documents returns the Markdown files of the repository, by their path in it.
func documents(t *testing.T) map[string]string {
	t.Helper()
	docs := make(map[string]string)
	err := filepath.WalkDir(repo, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name == "bin" || name == "vendor" || strings.HasPrefix(name, ".") && name != ".." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".md") {
			return nil
		}
		rel, err := filepath.Rel(repo, path)
		if err == nil {
			docs[rel] = read(t, rel)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if docs["README.md"] == "" || len(docs) < 20 {
		t.Fatalf("%d documents were found", len(docs))
	}
	return docs
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repo, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A block is a fenced block of code.
type block struct {
	line int    // of its first line
	info string // what follows the fence, such as "sh test"
	text string
}

// split returns the blocks of code of a document, and the document with an empty
// line in place of each line of code, indented ones too.
func split(text string) (blocks []block, prose string) {
	var b strings.Builder
	var open *block
	n, blank := 0, true
	for line := range strings.Lines(text) {
		n++
		fence := strings.HasPrefix(line, "```")
		indented := strings.HasPrefix(line, "    ") && blank
		switch {
		case open == nil && fence:
			open = &block{line: n + 1, info: strings.TrimSpace(strings.TrimPrefix(line, "```"))}
			b.WriteString("\n")
		case open != nil && fence:
			blocks = append(blocks, *open)
			open = nil
			b.WriteString("\n")
		case open != nil:
			open.text += line
			b.WriteString("\n")
		case indented:
			b.WriteString("\n")
		default:
			b.WriteString(line)
		}
		if open == nil && !indented {
			blank = strings.TrimSpace(line) == ""
		}
	}
	return blocks, b.String()
}

// goFiles returns the text of all Go files below dirs, without tests.
func goFiles(t *testing.T, dirs ...string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	for _, dir := range dirs {
		err := filepath.WalkDir(filepath.Join(repo, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			rel, err := filepath.Rel(repo, path)
			if err == nil {
				files[rel] = read(t, rel)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
