package logging

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// mayHold has locks that a function may hold during a line of the log, a file operation or a
// wait, and why.
var mayHold = map[string]string{
	"agents/builtin/root/socket.go stopListening caller": "a lock of that agent's own clients",
	"agents/builtin/root/socket.go check s.mu":           "the same",
	"agents/builtin/root/table.go warn caller":           "the same",
	"agents/mmv/registry.go unpublish caller":            "the application waits for its own file",
	"internal/wire/client.go Send c.sendMu":              "Notify takes it only if no request has a slot",
}

// No lock is held during a line of the log, a file operation, the start of a process or a wait:
// the acceptor may need the lock, and then no client is accepted until the log or the file
// system answers. The test sees what a function does itself, also if its comment says that the
// caller holds the lock.
func TestLocks(t *testing.T) {
	const root = "../../../.."
	found := make(map[string]bool)
	for _, dir := range []string{"access", "agents", "cmd", "daemon", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if d.Name() == "peer" { // helpers of tests
				return filepath.SkipDir
			}
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				return err
			}
			for _, d := range file.Decls {
				f, ok := d.(*ast.FuncDecl)
				if !ok || f.Body == nil {
					continue
				}
				name, _ := filepath.Rel(root, path)
				name += " " + f.Name.Name
				v := lockVisitor{held: make(map[string]bool), report: func(n ast.Node, what, lock string) {
					key := name + " " + lock
					if found[key] = true; mayHold[key] == "" {
						t.Errorf("%v: %s %s, and holds %s", set.Position(n.Pos()), f.Name.Name, what, lock)
					}
				}}
				if doc := strings.Join(strings.Fields(f.Doc.Text()), " "); strings.Contains(doc, "caller holds") || strings.Contains(doc, "mu is held") {
					v.held["caller"] = true
				}
				ast.Walk(v, f.Body)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range mayHold {
		if !found[name] {
			t.Errorf("%s does not hold a lock any more", name)
		}
	}
}

// A lockVisitor goes through the statements of a function, with the locks that are held there.
type lockVisitor struct {
	held   map[string]bool
	report func(n ast.Node, what, lock string)
}

// Visit implements [ast.Visitor]. What a block changes ends with the block: a branch that
// unlocks also returns.
func (v lockVisitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.BlockStmt, *ast.CaseClause:
		v.held = maps.Clone(v.held)
	case *ast.FuncLit:
		v.held = make(map[string]bool)
	case *ast.DeferStmt:
		return v.later(n.Call)
	case *ast.GoStmt:
		return v.later(n.Call)
	case *ast.CommClause: // what a select waits for is not looked at
		v.held = maps.Clone(v.held)
		for _, s := range n.Body {
			ast.Walk(v, s)
		}
		return nil
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			v.found(n, "receives from a channel")
		}
	case *ast.CallExpr:
		v.call(n)
	}
	return v
}

// later goes through a function that is not called now.
func (v lockVisitor) later(n *ast.CallExpr) ast.Visitor {
	if f, ok := n.Fun.(*ast.FuncLit); ok {
		ast.Walk(v, f)
	}
	return nil
}

// call looks at a call.
func (v lockVisitor) call(n *ast.CallExpr) {
	f, ok := n.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	of, name := types.ExprString(f.X), f.Sel.Name
	switch {
	case name == "Lock", name == "RLock":
		v.held[of] = true
	case name == "Unlock", name == "RUnlock":
		delete(v.held, of)
		delete(v.held, "caller")
	case name == "OnPDU", strings.EqualFold(of[strings.LastIndexByte(of, '.')+1:], "trace") && (name == "Event" || name == "Dump"):
		v.found(n, "logs")
	case of == "os" && name != "NewFile" && name != "Getpid" && name != "Pipe" && name != "SameFile" && name != "NewSyscallError":
		v.found(n, "calls os."+name)
	case of == "safepath":
		v.found(n, "calls safepath."+name)
	case of == "exec", name == "Start", name == "Wait":
		v.found(n, "calls "+name)
	default:
		if of, args := logArgs(n); of != "" && args != nil {
			v.found(n, "logs")
		}
	}
}

func (v lockVisitor) found(n ast.Node, what string) {
	for lock := range v.held {
		v.report(n, what, lock)
	}
}
