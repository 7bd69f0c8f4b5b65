package main

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// mayWrite has the functions, by package, that create, change or remove a file by its path and do not
// get the path from package safepath, and why. Root must not follow a link to the directory that another
// user has made.
var mayWrite = map[string]map[string]string{
	"internal/safepath": {
		"open":   "the links are followed with the rights of their owner, or with the user's own",
		"Remove": "the package itself", "Listen": "the package itself",
	},
	"agents/builtin/xfs":            {"reset": "a file of /proc"},
	"agents/pmda/cache":             {"New": "link gets paths from OpenParent"},
	"cmd/pmcd/internal/rundir":      {"makeOwn": "checkParent: no other user can replace it"},
	"cmd/pmcd/internal/privsep":     {"makeDir": "its callers use safepath", "setOOMScore": "a file of /proc"},
	"cmd/pmcd/internal/checkagents": {"ownWorkDir": "a new directory of this user"},
	"daemon/internal/conn":          {"Close": "bindUnix: only root can change where the path leads"},
	// For tests.
	"agents/builtin/mmv/mmvtest": {"Write": ""},
	"agents/pmda/pmdatest":       {"WriteFile": ""},
	"internal/pmdaroot/roottest": {"Start": ""},
}

// writes are the functions that create, change or remove a file by its path, by package.
var writes = map[string][]string{
	"os": {"Chmod", "Chown", "Lchown", "Chtimes", "Mkdir", "MkdirAll", "MkdirTemp", "Create", "CreateTemp", "WriteFile",
		"Rename", "Remove", "RemoveAll", "Symlink", "Link", "Truncate"},
	"syscall": {"Chmod", "Chown", "Lchown", "Mkdir", "Mknod", "Unlink", "Rmdir", "Rename", "Symlink", "Link", "Truncate", "Acct", "Mount"},
	"unix":    {"Chmod", "Chown", "Lchown", "Mkdir", "Mknod", "Unlink", "Rmdir", "Rename", "Symlink", "Link", "Truncate", "Acct", "Mount"},
	"net":     {"ListenUnix", "ListenUnixgram"},
}

func TestWrites(t *testing.T) {
	found := make(map[string]string) // "package function" to the position
	eachDecl(t, func(pkg, name string, set *token.FileSet, decl ast.Decl) {
		isTest := func(dir string) bool { return strings.HasPrefix(pkg+"/", dir+"/") }
		if strings.HasSuffix(set.Position(decl.Pos()).Filename, "_test.go") || slices.ContainsFunc(forTests, isTest) {
			return
		}
		safe, where := false, ""
		ast.Inspect(decl, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && slices.ContainsFunc(call.Args, isInProc) {
				return false
			}
			if sel, ok := n.(*ast.SelectorExpr); ok {
				x, _ := sel.X.(*ast.Ident)
				switch {
				case x == nil:
				case x.Name == "safepath":
					safe = true
				case slices.Contains(writes[x.Name], sel.Sel.Name), x.Name == "os" && (sel.Sel.Name == "O_CREATE" || sel.Sel.Name == "O_TRUNC"):
					where = set.Position(sel.Pos()).String()
				}
			}
			return true
		})
		if where != "" && !safe {
			found[pkg+" "+name] = where
		}
	})
	for pkg, list := range mayWrite {
		for fn := range list {
			if found[pkg+" "+fn] == "" {
				t.Errorf("%s in %s writes no file, or uses safepath: its row can go", fn, pkg)
			}
			delete(found, pkg+" "+fn)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %s has no row in mayWrite: use package safepath", found[key], key)
	}
}

// isInProc reports whether an argument is a text that begins with /proc/.
func isInProc(arg ast.Expr) bool {
	lit, ok := arg.(*ast.BasicLit)
	return ok && strings.HasPrefix(lit.Value, `"/proc/`)
}
