package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// maySkip has the functions, by package, that may skip a test in "make test", too, and why.
// All others use testutil.Missing, or what is built on it, so that "make test" fails if the
// machine lacks a program, a right or a file.
var maySkip = map[string]map[string]string{
	"internal/testutil": {
		"Missing":       "the skip that PMCD_REQUIRE_PEERS=1 makes a failure",
		"InProcess":     "passes a skip on",
		"TestInProcess": "tests that",
	},

	// What a kernel or a host may lack.
	"internal/rawio": {
		"sendUrgent":        "no urgent bytes in Unix sockets",
		"sendRights":        "no urgent bytes in Unix sockets",
		"TestPassrightsOff": "Linux before 6.16",
	},
	"agents/builtin/kvm":   {"TestRealTrace": "no tracefs, or it is not mounted"},
	"agents/builtin/linux": {"TestPressureOff": "no interface whose driver lacks names of ports"},
	"cmd/pmcd":             {"TestPeerOOMScore": "root without CAP_SYS_RESOURCE, as in containers"},
	"daemon/internal/conn": {
		"dialRecords":                  "CPUs without AES instructions",
		"TestUrgentByteInBlockingMode": "no urgent bytes in Unix sockets",
	},
	"pdu": {"TestTextIdent": "the captures are of a little-endian host"},

	// What a build, a run or a peer does not have.
	"internal/launch/goplugin": {
		"buildPlugin":   "with -cover the test binary has other versions of the packages",
		"TestOpen":      "with -cover the test binary has other versions of the packages",
		"TestOtherCopy": "with -cover the test binary has other versions of the packages",
		"TestInitHangs": "with -count the plugin is loaded already",
	},
	"pmnsload": {"TestPeerInstalled": "with PCP_DIR pmcpp looks in the system all the same"},
	"cmd/pmcd/tests/peertest": {
		"TestPeerStoresOfRoot":          "PCP's agents do not ask for the user",
		"TestPmloggerBesideBusyProcess": "without PMCD_LONG=1",
		"TestPmstoreRefused":            "PCP 6.0.3 does not refuse it",
		"TestServedAgent":               "C pmcd connects to localhost, which need not be ::1",
		"eachTree":                      "pmdalinux takes longer than a pmcd waits; a tree without proc and sys",
		"startFaults":                   "PMCD_UNDER_TEST is not a Go program",
	},
	"cmd/pmcd/tests/peertest/access": {"testVectors": "a vector that is not for PCP 6.0.3"},
	"bench":                          {"TestPeerSoakLoggers": "without PMCD_LONG=1"},
	"cmd/pmcd/tests/pmdatest":        {"TestPeerLong": "without PMCD_LONG=1"},
	"cmd/pmcd/internal/verify":       {"TestVerifyDSO": "with -short"},
	"docs/docstest":                  {"TestMarkedBlocks": "with -short"},
	"cmd/pmcd/tests/packagetest":     {"TestSameBytes": "without PMCD_LONG=1"},
	"cmd/pmcd/tests/plugintest":      {"TestOutside": "other flags without PMCD_LONG=1"},
	"cmd/pmcd/tests/systemtest": {
		"eachSystem":          "Debian 13 without PMCD_LONG=1",
		"TestPackageUpgrade":  "without PMCD_LONG=1",
		"TestPackageSysvinit": "without PMCD_LONG=1",
	},
}

func TestSkips(t *testing.T) {
	found := make(map[string]string) // "package function" to the place
	eachDecl(t, func(pkg, name string, set *token.FileSet, decl ast.Decl) {
		ast.Inspect(decl, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
					found[pkg+" "+name] = set.Position(call.Pos()).String()
				}
			}
			return true
		})
	})
	for pkg, list := range maySkip {
		for fn := range list {
			if found[pkg+" "+fn] == "" {
				t.Errorf("%s in %s skips no test: its row can go", fn, pkg)
			}
			delete(found, pkg+" "+fn)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		t.Errorf("%s: %s has no row in maySkip: use testutil.Missing", found[key], key)
	}
}

// eachDecl calls f with each declaration of each Go file of the module, and the name of the
// function.
func eachDecl(t *testing.T, f func(pkg, name string, set *token.FileSet, decl ast.Decl)) {
	const top = "../.."
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".." || d.Name() == "bin" || d.Name() == "vendor"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, decl := range file.Decls {
			name := "a variable"
			if fn, ok := decl.(*ast.FuncDecl); ok {
				name = fn.Name.Name
			}
			f(pkg, name, set, decl)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The tests that etc/qemutest.sh leaves out exist.
func TestQemuSkips(t *testing.T) {
	const top = "../.."
	script, err := os.ReadFile(filepath.Join(top, "etc/qemutest.sh"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^([a-z0-9/]+) ((?:Test|Fuzz|Example)\w+): .+$`).FindAllStringSubmatch(string(script), -1)
	if len(rows) == 0 {
		t.Error("no test is left out")
	}
	for _, row := range rows {
		files, err := filepath.Glob(filepath.Join(top, row[1], "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(files, func(file string) bool {
			text, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(text), "\nfunc "+row[2]+"(")
		}) {
			t.Errorf("%s has no %s: its row in etc/qemutest.sh can go", row[1], row[2])
		}
	}
}
