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
	"slices"
	"strings"
	"testing"
)

// rooms are the folders that serve this program, although other modules can import their
// packages. All other packages outside of internal are for other modules.
var rooms = []string{"access", "agents/builtin", "bench", "cmd", "daemon", "docs", "etc", "pdu/pdutest", "pmcdconf", "pmnsload"}

// public returns whether a package of this module, by its name below it, is meant for other
// modules.
func public(name string) bool {
	return !slices.Contains(strings.Split(name, "/"), "internal") &&
		!slices.ContainsFunc(rooms, func(room string) bool { return name == room || strings.HasPrefix(name, room+"/") })
}

// isPublic reports whether a type is of another module or meant for other modules.
func isPublic(name *types.TypeName) bool {
	if name.Pkg() == nil {
		return true
	}
	path, ours := strings.CutPrefix(name.Pkg().Path(), module+"/")
	return !ours || public(path)
}

// The exported API of what is meant for other modules mentions nothing else of this module.
func TestPublicAPI(t *testing.T) {
	ours, _ := listPackages(t)
	maps.DeleteFunc(ours, func(name string, p listedPackage) bool { return p.Name == "main" || !public(name) })
	names := slices.Sorted(maps.Keys(ours))
	imp := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t, names))
	for _, path := range names {
		pkg, err := imp.Import(module + "/" + path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range pkg.Scope().Names() {
			if obj := pkg.Scope().Lookup(name); obj.Exported() {
				for _, m := range mentions(obj) {
					t.Errorf("%s.%s mentions %s, which is not meant for other modules", path, name, m)
				}
			}
		}
	}
	if !slices.Contains(names, "agents/pmda") || !slices.Contains(names, "pdu/pmapi") {
		t.Errorf("packages for other modules are %q", names)
	}
}

// At most 45 libraries can be imported by other modules.
func TestImportable(t *testing.T) {
	ours, _ := listPackages(t)
	var libraries []string
	for name, p := range ours {
		parts := strings.Split(name, "/")
		if p.Name != "main" && parts[0] != "cmd" && !strings.HasSuffix(name, "test") && !slices.Contains(parts, "internal") {
			libraries = append(libraries, name)
		}
	}
	if len(libraries) > 45 || len(libraries) < 20 {
		slices.Sort(libraries)
		t.Errorf("%d libraries outside of internal: %q", len(libraries), libraries)
	}
}

// The check finds types wherever the API can mention them.
func TestMentions(t *testing.T) {
	foreign := types.NewPackage(module+"/internal/foreign", "foreign")
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

// exportData returns the function by which an importer finds the packages of this module
// that names names, and those that they depend on.
func exportData(t *testing.T, names []string) importer.Lookup {
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Export"}
	for _, path := range names {
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
