package main

import (
	"go/ast"
	"go/token"
	"strings"
	"testing"
)

// A time that is kept as a number has no monotonic reading. What is due by it comes early or
// late when the clock of the host is set. Larger units are those of formats of files.
func TestMonotonic(t *testing.T) {
	eachDecl(t, func(pkg, name string, set *token.FileSet, decl ast.Decl) {
		if pkg == "bench" || pkg == "internal/testutil" || strings.HasSuffix(set.Position(decl.Pos()).Filename, "_test.go") {
			return
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "UnixNano" {
				t.Errorf("%v: %s keeps a time as a number: keep a time.Time", set.Position(sel.Pos()), name)
			}
			return true
		})
	})
}
