package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// public has what is meant for other modules: packages, with the names that are meant
// for them; nil is all.
var public = map[string][]string{
	"pdu":                  nil,
	"pdu/pmapi":            nil,
	"agents":               nil,
	"agents/mmv":           nil,
	"agents/pmda":          nil,
	"agents/pmda/cache":    nil,
	"agents/pmda/event":    nil,
	"agents/pmda/pmdatest": nil,
	"agents/serve":         nil,
	"agents/serve/getopt":  nil,
	"agents/agenttest":     nil,
	"agents/trace":         nil,
}

// isPublic reports whether a type is of another module or meant for other modules.
func isPublic(name *types.TypeName) bool {
	if name.Pkg() == nil {
		return true
	}
	path, ours := strings.CutPrefix(name.Pkg().Path(), module+"/")
	names, ok := public[path]
	return !ours || ok && (names == nil || slices.Contains(names, name.Name()))
}

// The exported API of what is meant for other modules mentions nothing else of this
// module, and docs/architecture.md says what is meant for other modules.
func TestPublicAPI(t *testing.T) {
	imp := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t))
	for _, path := range slices.Sorted(maps.Keys(public)) {
		pkg, err := imp.Import(module + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		names := public[path]
		if names == nil {
			names = pkg.Scope().Names()
		}
		for _, name := range names {
			obj := pkg.Scope().Lookup(name)
			if obj == nil {
				t.Errorf("%s has no %s", path, name)
				continue
			}
			if obj.Exported() {
				for _, m := range mentions(obj) {
					t.Errorf("%s.%s mentions %s, which is not meant for other modules", path, name, m)
				}
			}
		}
	}

	doc, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for path, names := range public {
		want = append(append(want, path), names...)
	}
	_, text, _ := strings.Cut(string(doc), "## Packages\n")
	text, _, ok := strings.Cut(text, ". All")
	var got []string
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		got = append(got, m[1])
	}
	slices.Sort(want)
	slices.Sort(got)
	if !ok || !slices.Equal(got, want) {
		t.Errorf("docs/architecture.md says that %q are meant for other modules; want %q", got, want)
	}
}

// The check finds types wherever the API can mention them.
func TestMentions(t *testing.T) {
	foreign := types.NewPackage(module+"/foreign", "foreign")
	typ := types.NewNamed(types.NewTypeName(token.NoPos, foreign, "T", nil), types.NewStruct(nil, nil), nil)
	pkg := types.NewPackage(module+"/pdu", "pdu")
	param := types.NewTuple(types.NewParam(token.NoPos, pkg, "", types.NewSlice(types.NewPointer(typ))))
	takes := types.NewSignatureType(nil, nil, nil, param, nil, false)
	field := func(name string, embedded bool) *types.Struct {
		return types.NewStruct([]*types.Var{types.NewField(token.NoPos, pkg, name, typ, embedded)}, nil)
	}
	named := func(under types.Type, methods ...*types.Func) types.Object {
		name := types.NewTypeName(token.NoPos, pkg, "N", nil)
		types.NewNamed(name, under, methods)
		return name
	}
	withMethod := named(types.Typ[types.Int], types.NewFunc(token.NoPos, pkg, "M", types.NewSignatureType(
		types.NewVar(token.NoPos, pkg, "", types.Typ[types.Int]), nil, nil, param, nil, false)))
	for _, tt := range []struct {
		name string
		obj  types.Object
		want bool
	}{
		{"a parameter", types.NewFunc(token.NoPos, pkg, "F", takes), true},
		{"a variable", types.NewVar(token.NoPos, pkg, "V", types.NewMap(types.Typ[types.Int], types.NewChan(types.SendRecv, typ))), true},
		{"an exported field", named(field("Field", false)), true},
		{"an embedded type", named(field("T", true)), true},
		{"an unexported field", named(field("field", false)), false},
		{"a promoted method", named(types.NewStruct([]*types.Var{types.NewField(token.NoPos, pkg, "embedded", withMethod.Type(), true)}, nil)), true},
		{"a method", named(types.Typ[types.Int], types.NewFunc(token.NoPos, pkg, "M", takes)), true},
		{"an unexported method", named(types.Typ[types.Int], types.NewFunc(token.NoPos, pkg, "m", takes)), false},
		{"a method of an interface", named(types.NewInterfaceType([]*types.Func{types.NewFunc(token.NoPos, pkg, "M", takes)}, nil)), true},
		{"an alias", types.NewAlias(types.NewTypeName(token.NoPos, pkg, "A", nil), typ).Obj(), true},
		{"a basic type", named(types.Typ[types.Int]), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := mentions(tt.obj); len(got) > 0 != tt.want {
				t.Errorf("got %v, want any: %v", got, tt.want)
			}
		})
	}
}

// mentions returns the types of this module that obj, which is exported, mentions and
// that are not public.
func mentions(obj types.Object) []string {
	var found []string
	var walk func(types.Type)
	exported := func(o types.Object) {
		if o.Exported() {
			walk(o.Type())
		}
	}
	tuple := func(tup *types.Tuple) {
		for v := range tup.Variables() {
			walk(v.Type())
		}
	}
	name := func(n *types.TypeName, args *types.TypeList) {
		if !isPublic(n) {
			found = append(found, n.Pkg().Path()+"."+n.Name())
		}
		for a := range args.Types() {
			walk(a)
		}
	}
	walk = func(typ types.Type) {
		switch typ := typ.(type) {
		case *types.Alias:
			name(typ.Obj(), typ.TypeArgs())
		case *types.Named:
			name(typ.Obj(), typ.TypeArgs())
		case *types.Pointer:
			walk(typ.Elem())
		case *types.Slice:
			walk(typ.Elem())
		case *types.Array:
			walk(typ.Elem())
		case *types.Chan:
			walk(typ.Elem())
		case *types.Map:
			walk(typ.Key())
			walk(typ.Elem())
		case *types.Signature:
			tuple(typ.Params())
			tuple(typ.Results())
		case *types.Struct:
			for f := range typ.Fields() {
				exported(f)
			}
		case *types.Interface:
			for m := range typ.ExplicitMethods() {
				exported(m)
			}
			for e := range typ.EmbeddedTypes() {
				walk(e)
			}
		case *types.Union:
			for term := range typ.Terms() {
				walk(term.Type())
			}
		case *types.TypeParam:
			walk(typ.Constraint())
		case *types.Basic, *types.Tuple:
		default:
			panic(fmt.Sprintf("a %T", typ))
		}
	}
	tn, ok := obj.(*types.TypeName)
	if !ok {
		walk(obj.Type())
		return found
	}
	switch typ := tn.Type().(type) {
	case *types.Alias:
		walk(typ.Rhs())
	case *types.Named:
		for p := range typ.TypeParams().TypeParams() {
			walk(p.Constraint())
		}
		walk(typ.Underlying())
		for m := range types.NewMethodSet(types.NewPointer(typ)).Methods() { // promoted ones, too
			exported(m.Obj())
		}
	}
	return found
}

// exportData returns the function by which an importer finds the public packages and
// those that they depend on.
func exportData(t *testing.T) importer.Lookup {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for path := range public {
		args = append(args, module+"/"+path)
	}
	cmd := exec.Command("go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	files := make(map[string]string)
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		files[p.ImportPath] = p.Export
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}
