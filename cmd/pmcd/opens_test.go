package main

import (
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// mayOpen has the functions, by package, that may open a file for reading, or a directory,
// without package regular, and why. Without it, a FIFO in the place of the file is waited
// for, and a device may have no end. The table does not have files that are only written, the
// null device, and files whose path begins with /proc/: only the kernel makes these.
var mayOpen = map[string]map[string]string{
	"pmcdconf/regular": {"open": "the package itself"},

	// Open without waiting, and look at what they have opened, by themselves.
	"agents/builtin/internal/sysfile": {
		"open": "descriptors that stay open, of files without a size",
	},
	"agents/builtin/internal/pidfile": {"Read": "follows no link, since others can write to the directory"},
	"agents/builtin/internal/inroot":  {"Open": "O_PATH has no effect on the file", "walk": "O_PATH has no effect on the file", "open": "O_PATH has no effect on the file"},
	"agents/builtin/linux":            {"begin": "O_PATH has no effect on the file", "statfs": "O_PATH has no effect on the file"},
	"cmd/pmcd/pmcdctl/internal/compare": {
		"Load":        "a user may give it a pipe, and can interrupt it",
		"readProcess": "a file of /proc",
	},
	"agents/builtin/mmv": {"open": "the descriptor is for pread, and a scan looks at thousands of files"},
	"agents/builtin/proc": {
		"startPrivateAcct":  "creates the file",
		"stopAbandonedAcct": "follows no link, and locks the file",
	},
	"agents/builtin/root":          {"readInRoot": "O_PATH has no effect on the file"},
	"internal/safepath":            {"openat": "O_PATH has no effect on the file"},
	"internal/savefile":            {"replace": "a directory, after a rename in it"},
	"agents/pmda/cache":            {"New": "follows no link, since others can write to the directory"},
	"cmd/pmcd/internal/background": {"openReport": "it is only written"},
	"cmd/pmcd/internal/privsep":    {"protectFromOOM": "a file of /proc", "makeDir": "a directory that it has made"},
}

// forTests are the packages that are not part of the product.
var forTests = []string{
	"internal/testutil", "bench", "cmd/pmcd/internal/booted", "cmd/pmcd/internal/pathtrace", "cmd/pmcd/internal/peer", "cmd/pmcd/internal/pmcdtest",
	"etc/packaging", "etc/runtests",
}

// opens are the functions that open or read a file, by package.
var opens = map[string][]string{
	"os":        {"Open", "OpenFile", "OpenInRoot", "OpenRoot", "DirFS", "ReadFile", "ReadDir"},
	"ioutil":    {"ReadFile", "ReadDir"},
	"syscall":   {"Open", "Openat"},
	"unix":      {"Open", "Openat", "Openat2"},
	"elf":       {"Open"},
	"buildinfo": {"ReadFile"},
	"tls":       {"LoadX509KeyPair"},
}

func TestOpens(t *testing.T) {
	found := make(map[string]string) // "package function" to the place
	eachDecl(t, func(pkg, name string, set *token.FileSet, decl ast.Decl) {
		isTest := func(dir string) bool { return strings.HasPrefix(pkg+"/", dir+"/") }
		if strings.HasSuffix(set.Position(decl.Pos()).Filename, "_test.go") || slices.ContainsFunc(forTests, isTest) {
			return
		}
		ast.Inspect(decl, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && slices.ContainsFunc(call.Args, isHarmless) {
				return false
			}
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && slices.Contains(opens[x.Name], sel.Sel.Name) {
				found[pkg+" "+name] = set.Position(sel.Pos()).String()
			}
			return true
		})
	})
	for pkg, list := range mayOpen {
		for fn := range list {
			if found[pkg+" "+fn] == "" {
				t.Errorf("%s in %s opens no file: its row can go", fn, pkg)
			}
			delete(found, pkg+" "+fn)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %s has no row in mayOpen: use package regular", found[key], key)
	}
}

// isHarmless reports whether an argument is the flag O_WRONLY, the null device, or a text that
// begins with /proc/.
func isHarmless(arg ast.Expr) (harmless bool) {
	ast.Inspect(arg, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			harmless = harmless || n.Name == "O_WRONLY" || n.Name == "DevNull"
		case *ast.BasicLit:
			harmless = harmless || strings.HasPrefix(n.Value, `"/proc/`)
		}
		return true
	})
	return harmless
}
