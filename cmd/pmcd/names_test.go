package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// oldWords are words of our own for which the field has a term, by the folder in
// which they were used, with all folders below it. No identifier and no file may
// have one of them as its name.
var oldWords = map[string]string{
	"agents/transport":        "conduit link caller callers errand goOn rouse alone several flight flying wavered missed settle",
	"agents/wire":             "tap conduit link flight flying wavered missed own settle rouse getter putter atOnce readNow alone several",
	"agents/serve":            "door part complain",
	"agents/launch":           "seal widen lastWords",
	"agents/builtin/linux":    "patience news inside fact insts",
	"agents":                  "lastWords rig stage moody heavy twin choosers",
	"agents/builtin/internal": "prompt fresh",
	"cmd/pmcd":                "twin choosers linger lastWords rig stage moody heavy",
	"bench":                   "upsets beside crowd still storm rig stage moody heavy",
	"daemon": "lobby guest door welcome hear lead reopen line heat cool hurry shut over fastLane eager vain waits yielded others " +
		"meet introduce announce left dismiss farewell holds giveBack adopt given beat keep bury letGo retire lost broken settle settled " +
		"asks forgive loud healthy lastWords visible stepBack fileSeen work part stretch rate tap tapped conduit link rig stage moody heavy",
}

func TestNames(t *testing.T) {
	found := make(map[string][]string) // places of "folder word"
	names := 0
	const top = "../.."
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "bin"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		rel, err := filepath.Rel(top, path)
		if err != nil {
			return err
		}
		old := make(map[string]string) // word to folder of the table
		for folder, words := range oldWords {
			if strings.HasPrefix(rel, folder+"/") {
				for w := range strings.FieldsSeq(words) {
					old[w] = folder
				}
			}
		}
		if len(old) == 0 {
			return nil
		}
		look := func(name, place string) {
			names++
			name = initialLower(name)
			if folder, ok := old[name]; ok {
				found[folder+" "+name] = append(found[folder+" "+name], place)
			}
		}
		look(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".go"), "_test"), rel)
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		var visit func(n ast.Node) bool
		visit = func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.SelectorExpr: // what is selected is declared elsewhere
				ast.Inspect(n.X, visit)
				return false
			case *ast.KeyValueExpr: // so is the field of a literal
				if _, ok := n.Key.(*ast.Ident); !ok {
					ast.Inspect(n.Key, visit)
				}
				ast.Inspect(n.Value, visit)
				return false
			case *ast.Ident:
				look(n.Name, fmt.Sprint(rel, ":", set.Position(n.Pos()).Line))
			}
			return true
		}
		ast.Inspect(f, visit)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if names == 0 {
		t.Fatal("no file was read")
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %s", key, strings.Join(found[key][:min(5, len(found[key]))], " "))
	}
}

// initialLower returns a name as it is without the export.
func initialLower(name string) string {
	for i, r := range name {
		return name[:i] + string(unicode.ToLower(r)) + name[i+len(string(r)):]
	}
	return name
}
