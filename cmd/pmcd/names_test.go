package main

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// oldNames are identifiers with words of this project's own, and what to say.
var oldNames = map[string]string{
	"place": "index, column, position or slot", "places": "indices, columns, positions or slots",
	"told": "logged, notified or reported",
	"turn": "coroutine, batch or semaphore", "Turn": "Coroutine", "TurnPool": "CoroutinePool", "RunTurn": "HandleInput",
	"GiveWay": "Evict", "giveWay": "evict",
}

// oldPhrases are such phrases in comments, texts and documents, and what to say.
var oldPhrases = []struct {
	phrase *regexp.Regexp
	say    string
}{
	{regexp.MustCompile(`(?i)\bg[ai]ves? way\b`), "is evicted"},
	{regexp.MustCompile(`(?i)\bma(kes?|de|king) room\b`), "is evicted, ends or grows"},
	{regexp.MustCompile(`(?i)\b(scheduler|pmcd) is not told\b`), "not announced"},
	{regexp.MustCompile(`(?i)\bturns? of (a|the) session\b`), "the input that it handles"},
}

// Names and texts have the words that the field has.
func TestNames(t *testing.T) {
	const top = "../.."
	files := 0
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(path, top+"/")
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "bin" || d.Name() == "vendor" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		case d.IsDir() || rel == "CHANGELOG.md" || rel == "cmd/pmcd/names_test.go":
			return nil
		}
		isGo := strings.HasSuffix(rel, ".go")
		if ext := filepath.Ext(rel); !isGo && ext != ".md" && ext != ".1" && ext != ".8" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		for i, line := range strings.Split(string(text), "\n") {
			for _, old := range oldPhrases {
				if found := old.phrase.FindString(line); found != "" {
					t.Errorf("%s:%d: %q: say %q", rel, i+1, found, old.say)
				}
			}
		}
		if isGo {
			checkNames(t, rel, text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 500 {
		t.Errorf("only %d files were found", files)
	}
}

// checkNames reports the old names in a source file.
func checkNames(t *testing.T, path string, text []byte) {
	set := token.NewFileSet()
	file := set.AddFile(path, -1, len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, tok, name := s.Scan()
		if tok == token.EOF {
			return
		}
		if tok != token.IDENT {
			continue
		}
		if say, ok := oldNames[name]; ok {
			t.Errorf("%v: %s: say %s", set.Position(pos), name, say)
		}
	}
}
