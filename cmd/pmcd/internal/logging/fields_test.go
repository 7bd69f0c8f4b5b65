package logging

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A message that names an attribute which it does not have would be logged with the
// braces, and a field that docs/logging.md does not have would not be stable.
func TestFields(t *testing.T) {
	const root = "../../../.."
	doc, err := os.ReadFile(filepath.Join(root, "docs/logging.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(doc), "\n### Fields\n")
	if !ok {
		t.Fatal("docs/logging.md has no section Fields")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	documented := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| ((`[a-z_]+`(, )?)+) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			documented[strings.Trim(name, "`")] = true
		}
	}
	placeholder := regexp.MustCompile(`\{([a-z_.]+)(:q)?\}`)
	calls, used := 0, make(map[string]bool)
	check := func(path string) {
		// Programs have logs of their own, without fields. Debug options are for people.
		others := strings.Contains(path, "/agents/serve/") || strings.Contains(path, "/agents/wire/") || strings.HasSuffix(path, "/diag/debug.go")
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			var message string
			var attrs []string
			var debug bool
			switch n := n.(type) {
			case *ast.CallExpr:
				message, attrs, debug = logCall(n)
			case *ast.CompositeLit:
				attrs = attrList(n)
			}
			if message != "" {
				calls++
			}
			if n == nil {
				return true
			}
			pos := set.Position(n.Pos())
			for _, name := range attrs {
				if used[name] = true; !documented[name] && !others && !debug {
					t.Errorf("%v: field %s is not in the table of docs/logging.md", pos, name)
				}
			}
			for _, m := range placeholder.FindAllStringSubmatch(message, -1) {
				builtin := strings.Contains(path, "/agents/builtin/") && (m[1] == "agent" || m[1] == "domain") // of With
				if !builtin && !slices.Contains(attrs, m[1]) {
					t.Errorf("%v: %q has no attribute %s", pos, message, m[1])
				}
			}
			return true
		})
	}
	for _, dir := range []string{"agents", "cmd", "daemon"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				check(path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if calls < 30 {
		t.Errorf("only %d messages were found", calls)
	}
	for name := range documented {
		if !used[name] {
			t.Errorf("docs/logging.md has the field %s, which no message has", name)
		}
	}
}

// logCall returns the message and the names of the attributes of a call that logs. The
// message is "" if this is another call, or one whose arguments are not literals. Debug is true for
// lines of debug options.
func logCall(call *ast.CallExpr) (message string, attrs []string, debug bool) {
	args := call.Args
	skip := -1 // arguments before the message
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		var of string
		switch x := f.X.(type) {
		case *ast.Ident:
			of = x.Name
		case *ast.SelectorExpr:
			of = x.Sel.Name
		}
		debug = strings.EqualFold(of, "debug")
		switch name := f.Sel.Name; {
		case strings.EqualFold(of, "limiter") && name == "Warn", debug && name == "Log":
			skip = 1
		case name == "Log", name == "PDU": // a context and a level, or a level and a key; a direction and a PDU
			skip = 2
		case name == "Info", name == "Warn", name == "Error", name == "Debug", name == "once":
			skip = 0
		}
	case *ast.Ident:
		if f.Name == "append" && len(args) > 1 {
			if list, ok := args[0].(*ast.Ident); ok && list.Name == "attrs" {
				return "", names(args[1:]), false
			}
		}
	}
	if skip < 0 || len(args) <= skip {
		return "", nil, false
	}
	args = args[skip:]
	if call.Ellipsis.IsValid() { // the attributes are elsewhere
		return "", nil, false
	}
	return literal(args[0]), names(args[1:]), debug
}

// attrList returns the names of the attributes in a literal of type []any.
func attrList(list *ast.CompositeLit) []string {
	if a, ok := list.Type.(*ast.ArrayType); ok {
		if id, ok := a.Elt.(*ast.Ident); ok && id.Name == "any" {
			return names(list.Elts)
		}
	}
	return nil
}

// names returns the names of a list of attributes.
func names(list []ast.Expr) (names []string) {
	for len(list) > 0 {
		if name := literal(list[0]); name != "" {
			names = append(names, name)
			list = list[min(2, len(list)):]
			continue
		}
		list = list[1:] // a slog.Attr
	}
	return names
}

// literal returns the value of a string literal, or of several that are joined; else "".
func literal(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		if a, b := literal(e.X), literal(e.Y); e.Op == token.ADD && a != "" && b != "" {
			return a + b
		}
	}
	return ""
}
