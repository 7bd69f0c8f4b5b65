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
	"unicode"
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
	section, kinds, ok := strings.Cut(section, "\n### Events\n")
	if !ok {
		t.Fatal("docs/logging.md has no section Events")
	}
	documented, documentedEvents := inTable(section), inTable(kinds)
	events := make(map[string]bool)
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
			if call, ok := n.(*ast.CallExpr); ok && !others && !debug {
				event, needed := eventOf(call)
				if events[event] = true; event != "" && !documentedEvents[event] {
					t.Errorf("%v: event %s is not in the table of docs/logging.md", pos, event)
				}
				if needed && event == "" {
					t.Errorf("%v: nothing in this message is the same for all of its kind: it needs a logtext.Event", pos)
				}
			}
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
	for _, dir := range []string{"agents", "cmd", "daemon", "internal"} {
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
	for event := range documentedEvents {
		if !events[event] && !strings.HasPrefix(event, "log_") { // of File
			t.Errorf("docs/logging.md has the event %s, which no message has", event)
		}
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
	if f, ok := call.Fun.(*ast.Ident); ok && f.Name == "append" && len(call.Args) > 1 {
		if list, ok := call.Args[0].(*ast.Ident); ok && list.Name == "attrs" {
			return "", names(call.Args[1:]), false
		}
	}
	of, args := logArgs(call)
	debug = strings.EqualFold(of, "debug")
	if len(args) == 0 || call.Ellipsis.IsValid() { // the attributes are elsewhere
		return "", nil, debug
	}
	return literal(args[0]), names(args[1:]), debug
}

// logArgs returns the message and the attributes of a call that may log, and the name of
// the logger.
func logArgs(call *ast.CallExpr) (of string, args []ast.Expr) {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", nil
	}
	switch x := f.X.(type) {
	case *ast.Ident:
		of = x.Name
	case *ast.SelectorExpr:
		of = x.Sel.Name
	case *ast.CallExpr: // log.With(...)
		if with, ok := x.Fun.(*ast.SelectorExpr); ok && with.Sel.Name == "With" {
			of = "log"
		}
	}
	skip := -1 // arguments before the message
	switch name := f.Sel.Name; {
	case strings.EqualFold(of, "limiter") && name == "Warn", strings.EqualFold(of, "debug") && name == "Log", name == "warn":
		skip = 1
	case name == "Log", name == "PDU": // a context and a level, or a level and a key; a direction and a PDU
		skip = 2
	case name == "Info", name == "Warn", name == "Error", name == "Debug", name == "once", name == "Mistake":
		skip = 0
	}
	if skip < 0 || len(call.Args) <= skip {
		return of, nil
	}
	return of, call.Args[skip:]
}

// inTable returns the names in the first column of a table of docs/logging.md.
func inTable(section string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| ((`[a-z_]+`(, )?)+) \\|").FindAllStringSubmatch(section, -1) {
		for name := range strings.SplitSeq(m[1], ", ") {
			all[strings.Trim(name, "`")] = true
		}
	}
	return all
}

// eventOf returns the event of a call that logs, or "", and whether the message needs
// one: it has no words of its own.
func eventOf(call *ast.CallExpr) (event string, needed bool) {
	for _, arg := range call.Args {
		if c, ok := arg.(*ast.CallExpr); ok && isSelector(c.Fun, "logtext", "Event") {
			event = literal(c.Args[0])
		}
	}
	of, args := logArgs(call)
	if !slices.Contains([]string{"log", "plain", "limiter", "opt"}, strings.ToLower(of)) || len(args) == 0 {
		return event, false
	}
	if strings.EqualFold(of, "opt") && literal(args[0]) == "" {
		return event, false // the Warn of other options
	}
	if id, ok := args[0].(*ast.Ident); ok && id.Name == "message" {
		return event, false // a template that is put together from literals
	}
	if s, ok := args[0].(*ast.SelectorExpr); ok && s.Sel.Name == "message" {
		return event, false
	}
	words := false
	ast.Inspect(args[0], func(n ast.Node) bool {
		if e, ok := n.(ast.Expr); ok {
			text := regexp.MustCompile(`\{[a-z_.]+(:q)?\}`).ReplaceAllString(strings.ReplaceAll(literal(e), "{operation}", "operation"), "")
			words = words || strings.ContainsFunc(text, unicode.IsLetter)
		}
		return true
	})
	return event, !words
}

func isSelector(e ast.Expr, of, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok || s.Sel.Name != name {
		return false
	}
	id, ok := s.X.(*ast.Ident)
	return ok && id.Name == of
}

// attrList returns the names of the attributes in a literal of type []any or []slog.Attr.
func attrList(list *ast.CompositeLit) []string {
	if a, ok := list.Type.(*ast.ArrayType); ok {
		if id, ok := a.Elt.(*ast.Ident); ok && id.Name == "any" || isSelector(a.Elt, "slog", "Attr") {
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
		if call, ok := list[0].(*ast.CallExpr); ok && len(call.Args) > 0 {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok && isSelector(f, "slog", f.Sel.Name) {
				names = append(names, literal(call.Args[0]))
			}
			if isSelector(call.Fun, "logtext", "Event") {
				names = append(names, "event")
			}
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
