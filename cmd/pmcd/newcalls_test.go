package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// newCalls are system calls since Linux 3.15, as package unix names them. A kernel, a container
// runtime or systemd may not know them.
var newCalls = []string{
	"Renameat2", "Getrandom", "MemfdCreate", "CopyFileRange", "Preadv2", "Pwritev2", "Statx", "PidfdOpen", "PidfdGetfd",
	"PidfdSendSignal", "OpenTree", "MoveMount", "Fsopen", "Fsmount", "Fspick", "CloseRange", "Openat2", "Faccessat2",
	"MountSetattr", "Fchmodat2", "SchedSetAttr", "SchedGetAttr", "Mseal",
}

// anyError has the functions, by package, that do something else after each error of such a call, as
// they do without the call.
var anyError = map[string]string{
	"agents/builtin/linux mountID":   "reads fdinfo of the same descriptor",
	"internal/launch/child waitExit": "blocks a thread in waitid",
}

// A function that uses a newer system call has something else to do if kernel.Lacks says that the call
// is not there.
func TestNewSystemCalls(t *testing.T) {
	used := make(map[string]bool)
	eachDecl(t, func(pkg, name string, set *token.FileSet, decl ast.Decl) {
		isTest := func(dir string) bool { return strings.HasPrefix(pkg+"/", dir+"/") }
		if strings.HasSuffix(set.Position(decl.Pos()).Filename, "_test.go") || slices.ContainsFunc(forTests, isTest) {
			return
		}
		var calls []ast.Node
		lacks := false
		ast.Inspect(decl, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				x, _ := sel.X.(*ast.Ident)
				switch {
				case x == nil:
				case x.Name == "kernel" && sel.Sel.Name == "Lacks":
					lacks = true
				case x.Name == "unix" && isNewCall(sel.Sel.Name):
					calls = append(calls, sel)
				}
			}
			return true
		})
		key := pkg + " " + name
		if _, ok := anyError[key]; ok && len(calls) > 0 {
			used[key] = true
		} else if len(calls) > 0 && !lacks {
			t.Errorf("%s: %s uses a newer system call without kernel.Lacks", set.Position(calls[0].Pos()), key)
		}
	})
	for key := range anyError {
		if !used[key] {
			t.Errorf("%s uses no newer system call: its row can go", key)
		}
	}
}

// isNewCall reports whether name is that of a function or a number (SYS_STATX) of a newer call.
func isNewCall(name string) bool {
	number, isNumber := strings.CutPrefix(name, "SYS_")
	return slices.ContainsFunc(newCalls, func(call string) bool {
		return call == name || isNumber && strings.EqualFold(call, strings.ReplaceAll(number, "_", ""))
	})
}
