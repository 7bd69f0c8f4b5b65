package pmnsload

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// root returns the text of a root with these lines in it.
func root(lines string) string { return "root {\n" + lines + "\n}\n" }

// parseTests are name spaces with the expected results. TestPeerParse compares them
// with those of pminfo -n, or -N if unique.
var parseTests = []struct {
	name    string
	in      string
	unique  bool
	names   string // "name pmid" of each, by commas
	err     string // of the first error, as pminfo prints it but for its place
	at      string // place of the first error
	is      error
	differs string // why pminfo does otherwise
}{
	// Layout.
	{name: "a tree", in: "root {\n one 1:2:3\n two\n four\n}\ntwo {\n three 4:5:6\n}\nfour {\n five\n}\nfour.five {\n six 7:8:9\n}\n", names: "one 1.2.3, two.three 4.5.6, four.five.six 7.8.9"},
	{name: "all on one line", in: "root { a 1:2:3 b 1:2:4 c } c { d 1:2:5 }\n", names: "a 1.2.3, b 1.2.4, c.d 1.2.5"},
	{name: "a word a line", in: "root\n{\na\n\n1:2:3\n}\n", names: "a 1.2.3"},
	{name: "all kinds of blanks", in: "\t root\r\n\f{\va\t1:2:3\r\n}\r\n", names: "a 1.2.3"},
	{name: "blocks in another order", in: "a.b {\n c 1:1:1\n}\nroot {\n x\n a\n}\na {\n b\n}\nx {\n y 1:1:2\n}\n", names: "x.y 1.1.2, a.b.c 1.1.1"},
	{name: "an empty root", in: "root {\n}\n"},
	{name: "empty blocks", in: "root {\n a\n b\n c 1:1:1\n}\na { }\nb {\n}\n", names: "c 1.1.1"},
	{name: "a metric called root", in: root("root 1:1:1"), names: "root 1.1.1"},
	{name: "a name is not looked for in its parent's name", in: "root { a b 1:1:1 }\na { b 1:1:2 a }\na.a { a 1:1:3 }\n", names: "a.b 1.1.2, a.a.a 1.1.3, b 1.1.1"},
	{name: "letters, digits and _ in a name", in: root("aZ_9__ 1:1:1"), names: "aZ_9__ 1.1.1"},
	{name: "names with a common start", in: "root { a ab a_b }\na { b 1:1:1 }\nab { c 1:1:2 }\na_b { c 1:1:3 }\n", names: "a.b 1.1.1, ab.c 1.1.2, a_b.c 1.1.3"},
	{name: "no closing brace at the end", in: "root {\n a 1:2:3\n", names: "a 1.2.3"},
	{name: "no opening brace at the end", in: "root\n"},
	{name: "a last line without newline counts", in: "root { a 1:2:3 }", names: "a 1.2.3", differs: "the last line is lost"},
	{name: "a long line", in: root(strings.Repeat(" ", 300) + strings.Repeat("a", 300) + " 1:2:3"), names: strings.Repeat("a", 300) + " 1.2.3", differs: "lines of more than 255 bytes are Absurdly long"},

	// PMIDs.
	{name: "the largest PMID", in: root("a 510:4095:1023\nb 0:0:0"), names: "a 510.4095.1023, b 0.0.0"},
	{name: "blanks around colons", in: root("a 1 : 2\t:\t3 b 2 :3: 4"), names: "a 1.2.3, b 2.3.4"},
	{name: "zeros before numbers", in: root("a 01:0002:00000000003"), names: "a 1.2.3"},
	{name: "dynamic roots", in: root("a 0:*:*\nb 510 : * : *"), names: "a 0.*.*, b 510.*.*"},
	{name: "a PMID with two names", in: root("a 1:1:1\nb 1:1:1"), names: "a 1.1.1, b 1.1.1"},
	{name: "a domain number too large", in: root("a 511:0:0"), err: "Illegal domain field in PMID", at: "f:2:3", is: ErrDomain},
	{name: "a domain number of a dynamic root too large", in: root("a 511:*:*"), err: "Illegal domain field in dynamic PMID", at: "f:2:3", is: ErrDomain},
	{name: "a cluster number too large", in: root("a 0:4096:0"), err: "Illegal cluster field in PMID", at: "f:2:3", is: ErrCluster},
	{name: "an item number too large", in: root("a 0:0:1024"), err: "Illegal item field in PMID", at: "f:2:3", is: ErrItem},
	{name: "a number past 32 bits", in: root("a 4294967297:1:1"), err: "Illegal domain field in PMID", at: "f:2:3", is: ErrDomain, differs: "the number is taken modulo 2^32"},
	{name: "two numbers", in: root("a 1:2"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID},
	{name: "no number in the middle", in: root("a 1::3"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID},
	{name: "no last number", in: root("a 1:2:"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID, differs: "at times pminfo crashes"},
	{name: "a star for the cluster alone", in: root("a 1:*:0"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID},
	{name: "a star for the item alone", in: root("a 1:0:*"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID},
	{name: "stars alone", in: root("a *:*:*"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID},
	{name: "a PMID over two lines", in: root("a 1:2:\n3"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID, differs: "at times pminfo crashes"},
	{name: "a domain alone", in: root("a 1"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID, differs: "it is a dynamic root"},
	{name: "four numbers", in: root("a 1:2:3:4"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID, differs: "the fourth is ignored"},
	{name: "a star after a PMID", in: root("a 1:2:3*"), err: "Illegal PMID", at: "f:2:3", is: ErrPMID, differs: "the star is ignored"},
	{name: "a macro that is not defined", in: root("a 1:FOO:3"), err: "Expected NAME, PMID or }", at: "f:2:3", is: ErrNameOrPMID},
	{name: "a negative number", in: root("a 1:-2:3"), err: "Expected NAME, PMID or }", at: "f:2:3", is: ErrNameOrPMID},
	{name: "a brace without blank after a PMID", in: root("a 1:2:3}"), err: "Expected NAME, PMID or }", at: "f:2:3", is: ErrNameOrPMID},
	{name: "a second PMID", in: root("a 1:2:3 4:5:6"), err: "Expected NAME or }", at: "f:2:9", is: ErrName},

	// Words out of place.
	{name: "a brace for a path", in: "{\n", err: "Expected NAME or PATH", at: "f:1:1", is: ErrPath},
	{name: "a PMID for a path", in: "1:2:3 {\n", err: "Expected NAME or PATH", at: "f:1:1", is: ErrPath},
	{name: "a closing brace too many", in: root("a 1:1:1 }"), err: "Expected NAME or PATH", at: "f:3:1", is: ErrPath},
	{name: "a brace without blank after a path", in: "root{ a 1:2:3 }\n", err: "Expected NAME or PATH", at: "f:1:1", is: ErrPath},
	{name: "a path that begins with a dot", in: ".a {\n", err: "Expected NAME or PATH", at: "f:1:1", is: ErrPath},
	{name: "a path that ends in a dot", in: root("a") + "a. { b 1:1:1 }\n", err: "Expected NAME or PATH", at: "f:4:1", is: ErrPath, differs: "the block is not the one that a wants"},
	{name: "a path with two dots", in: "root { }\na..b { c 1:1:1 }\n", err: "Expected NAME or PATH", at: "f:2:1", is: ErrPath, differs: "the block is disconnected"},
	{name: "no brace after a path", in: "root a\n", err: "{ expected", at: "f:1:6", is: ErrBrace},
	{name: "no blank after a brace", in: "root {a\n", err: "{ expected", at: "f:1:6", is: ErrBrace},
	{name: "a brace in a block", in: root(" {"), err: "Expected NAME or }", at: "f:2:2", is: ErrName},
	{name: "a PMID for a name", in: root("1:2:3"), err: "Expected NAME or }", at: "f:2:1", is: ErrName},
	{name: "a path for a name", in: root("a.b 1:2:3"), err: "Expected NAME or }", at: "f:2:1", is: ErrName},
	{name: "a name with a hyphen", in: root("\tproc-nprocs 3:0:0"), err: "Expected NAME or }", at: "f:2:2", is: ErrName},
	{name: "a name with a letter that is not ASCII", in: root("\xc3\xa9 3:0:0"), err: "Expected NAME or }", at: "f:2:1", is: ErrName},
	{name: "a name that begins with _", in: root("_a 3:0:0"), err: "Expected NAME or }", at: "f:2:1", is: ErrName},
	{name: "a brace within a block", in: root("a {"), err: "Expected NAME, PMID or }", at: "f:2:3", is: ErrNameOrPMID},
	{name: "a path after a name", in: root("bogus - this is not correct"), err: "Expected NAME, PMID or }", at: "f:2:7", is: ErrNameOrPMID},
	{name: "C++ comments", in: "root { a 1:2:3 } // c\n", err: "Expected NAME or PATH", at: "f:1:18", is: ErrPath},

	// Control lines.
	{name: "a marker gives errors another place", in: "root {\n# 70 \"x y\" 3\na 1:1:1\n b.c\n", err: "Expected NAME or }", at: "x y:71:2", is: ErrName},
	{name: "a marker after blanks and without", in: " #70\"x\"\n{\n", err: "Expected NAME or PATH", at: "x:70:1", is: ErrPath},
	{name: "an unknown control line", in: root("#fumble"), err: "Illegal line number control number", at: "f:2:1", is: ErrControl},
	{name: "a marker with no number", in: "# x \"x\"\n", err: "Illegal line number control number", at: "f:1:1", is: ErrControl},
	{name: "a marker with no file", in: "# 7\n", err: "Illegal line number control number", at: "f:1:1", is: ErrControl},
	{name: "a comment of a shell", in: "# name space\n", err: "Illegal line number control number", at: "f:1:1", is: ErrControl},
	{name: "a control line within a name", in: root("a # 7 \"x\""), err: "Expected NAME, PMID or }", at: "f:2:3", is: ErrNameOrPMID},

	// The tree.
	{name: "no text", in: "", err: `No name space entry for "root"`, is: ErrNoRoot},
	{name: "no root", in: "a {\n b 1:1:1\n}\n", err: `No name space entry for "root"`, is: ErrNoRoot},
	{name: "two roots", in: root("a 1:1:1") + root("b 1:1:2"), err: `Multiple name space entries for "root"`, at: "f:4:1", is: ErrRoots},
	{name: "a name twice", in: "root { b }\nb {\n a 1:1:1\n c 1:1:3\n  a 1:1:2\n}\n", err: `Duplicate name "a" in subtree for "b"`, at: "f:5:3", is: ErrDuplicateName},
	{name: "a name twice below the root", in: root("a 1:1:1 a 1:1:1"), err: `Duplicate name "a" in subtree for "root"`, at: "f:2:9", is: ErrDuplicateName},
	{name: "a name of a leaf and of a non-leaf", in: root("a 1:1:1 a") + "a { b 1:1:1 }\n", err: `Duplicate name "a" in subtree for "root"`, at: "f:2:9", is: ErrDuplicateName},
	{name: "a name of two non-leaves", in: root("a a") + "a { b 1:1:1 }\n", err: `Duplicate name "a" in subtree for "root"`, at: "f:2:3", is: ErrDuplicateName},
	{name: "a name twice in a block that is not closed", in: "root {\n a 1:1:1\n a 1:1:2\n", err: `Duplicate name "a" in subtree for "root"`, at: "f:3:2", is: ErrDuplicateName, differs: "only } looks for duplicates"},
	{name: "no block for a name", in: "root {\n a\n}\na {\n b c 1:1:1\n}\n", err: `Cannot find definition for non-terminal node "a.b" in name space`, at: "f:5:2", is: ErrUndefined},
	{name: "a path that begins with root", in: root("a") + "root.a { b 1:1:1 }\n", err: `Cannot find definition for non-terminal node "a" in name space`, at: "f:2:1", is: ErrUndefined},
	{name: "a non-leaf called root", in: root("root"), err: `Cannot find definition for non-terminal node "root" in name space`, at: "f:2:1", is: ErrUndefined},
	{name: "a block of no name", in: root("a 1:1:1") + "b {\n c 1:1:2\n}\n", err: `Disconnected subtree ("b") in name space`, at: "f:4:1", is: ErrDisconnected},
	{name: "a block of a metric", in: root("a 1:1:1") + "a {\n c 1:1:2\n}\n", err: `Disconnected subtree ("a") in name space`, at: "f:4:1", is: ErrDisconnected},
	{name: "a block of a dynamic root", in: root("a 1:*:*") + "a {\n c 1:1:2\n}\n", err: `Disconnected subtree ("a") in name space`, at: "f:4:1", is: ErrDisconnected},
	{name: "two blocks of a name", in: root("a") + "a { b 1:1:1 }\na { c 1:1:2 }\n", err: `Disconnected subtree ("a") in name space`, at: "f:4:1", is: ErrDisconnected},

	// Unique PMIDs.
	{name: "no PMID with two names", unique: true, in: root("a 1:1:1\nb 1:1:2\nc 1:2:1"), names: "a 1.1.1, b 1.1.2, c 1.2.1"},
	{name: "a PMID with two names that must not be", unique: true, in: "root {\n a 1:2:3\n b\n c 1:2:3\n}\nb {\n x 1:2:3\n y 5:5:5\n}\n", err: `Duplicate metric id (1.2.3) in name space for metrics "b.x" and "a"`, at: "f:7:2", is: ErrDuplicatePMID},
	{name: "dynamic roots of the same domain", unique: true, in: root("a 1:*:*\nb 1:*:*"), names: "a 1.*.*, b 1.*.*"},
}

func TestParse(t *testing.T) {
	for _, tt := range parseTests {
		t.Run(tt.name, func(t *testing.T) {
			tree, err := Parse("f", strings.NewReader(tt.in), Options{Unique: tt.unique})
			if got := listing(tree); got != tt.names {
				t.Errorf("%q:\ngot  %q\nwant %q", tt.in, got, tt.names)
			}
			var e *Error
			switch {
			case err == nil && tt.err == "":
			case tt.err == "":
				t.Errorf("%q: %v", tt.in, err)
			case !errors.As(err, &e):
				t.Errorf("%q: error %v, want %q", tt.in, err, tt.err)
			case e.Err.Error() != tt.err || e.Pos.String() != tt.at || !errors.Is(err, tt.is):
				t.Errorf("%q:\ngot  %v: %v\nwant %v: %v", tt.in, e.Pos, e.Err, tt.at, tt.err)
			}
		})
	}
}

// listing returns the names of a tree in the form of parseTests.
func listing(tree *Tree) string {
	var list []string
	for e := range tree.All("") {
		id := e.PMID.String()
		if e.Kind == Dynamic {
			id = fmt.Sprintf("%d.*.*", e.Domain)
		}
		list = append(list, e.Name+" "+id)
	}
	return strings.Join(list, ", ")
}

func TestAllMistakesInATreeAreTold(t *testing.T) {
	_, err := Parse("f", strings.NewReader("root {\n a\n a 1:1:1\n b 1:1:1 c\n}\n\tx { }\ny { }\n"), Options{Unique: true})
	var list ErrorList
	if !errors.As(err, &list) {
		t.Fatalf("error is %T", err)
	}
	want := strings.Join([]string{
		`[f:2] Error Parsing ASCII PMNS: Cannot find definition for non-terminal node "a" in name space`,
		`[f:3] Error Parsing ASCII PMNS: Duplicate name "a" in subtree for "root"`,
		`[f:4] Error Parsing ASCII PMNS: Cannot find definition for non-terminal node "c" in name space`,
		`[f:6] Error Parsing ASCII PMNS: Disconnected subtree ("x") in name space`,
		`[f:7] Error Parsing ASCII PMNS: Disconnected subtree ("y") in name space`,
	}, "\n")
	if got := list.Detail(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := err.Error(), `f:2:2: Cannot find definition for non-terminal node "a" in name space (and 4 more errors)`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, is := range []error{ErrUndefined, ErrDuplicateName, ErrDisconnected} {
		if !errors.Is(err, is) {
			t.Errorf("is not %v", is)
		}
	}
}

func TestManyMistakesAreCutShort(t *testing.T) {
	for _, text := range []string{
		root(strings.Repeat("a ", 1000)) + "a { }\n",
		root("") + strings.Repeat("a { }\n", 1000),
		root("a" + strings.Join(strings.Fields(strings.Repeat("b c d e f ", 100)), "\na")),
	} {
		_, err := Parse("f", strings.NewReader(text), Options{})
		var list ErrorList
		if !errors.As(err, &list) || len(list) != maxErrors+1 || list[maxErrors].Error() != "Too many errors" {
			t.Errorf("%d errors: %v", len(list), err)
		}
	}
}

func TestDetailShowsTheLineAndThePlace(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"root {\n\t a\t1:FOO:3 }\n", "[f:2] Error Parsing ASCII PMNS: Expected NAME, PMID or }\n    a\t1:FOO:3 }\n     \t^"},
		{"root {\n" + strings.Repeat("a 1:1:1 ", 100) + "-\n", "[f:2] Error Parsing ASCII PMNS: Expected NAME or }\n    " + strings.Repeat("a 1:1:1 ", 32) + "..."},
		{"#foo\n", "[f:1] Error Parsing ASCII PMNS: Illegal line number control number\n    #foo\n    ^"},
		{"", `Error Parsing ASCII PMNS: No name space entry for "root"`},
	} {
		_, err := Parse("f", strings.NewReader(tt.text), Options{})
		var list ErrorList
		if !errors.As(err, &list) || list.Detail() != tt.want {
			t.Errorf("%q: got\n%s\nwant\n%s", tt.text, list.Detail(), tt.want)
		}
	}
}

func TestErrorsInIncludedFilesHaveTheirPlaceThere(t *testing.T) {
	files := map[string]string{
		"top": "root {\n/* a\n b */ a 1:1:1\n#include \"inc\"\n c 1:1:-1\n}\n",
		"inc": " b 1:1:2 /*\n\n*/\n",
	}
	opt := Options{Preprocess: true, Open: memory(files)}
	_, err := Load("top", opt)
	if got, want := fmt.Sprint(err), "top:5:4: Expected NAME, PMID or }"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	files["inc"] += " b 1:1:3\n"
	files["top"] = strings.Replace(files["top"], "-", "", 1)
	_, err = Load("top", opt)
	if got, want := fmt.Sprint(err), `inc:4:2: Duplicate name "b" in subtree for "root"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	files["inc"] = "#endif\n"
	_, err = Load("top", opt)
	if got, want := fmt.Sprint(err), "inc:1: No matching #ifdef or #ifndef for #endif"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheDefaultFileIsNotPreprocessed(t *testing.T) {
	text := "#define A 1\nroot { a A:1:1 }\n"
	if _, err := Parse("f", strings.NewReader(text), Options{}); !errors.Is(err, ErrControl) {
		t.Errorf("without: %v", err)
	}
	tree, err := Parse("f", strings.NewReader(text), Options{Preprocess: true})
	if got, want := listing(tree), "a 1.1.1"; got != want || err != nil {
		t.Errorf("with: %q, %v", got, err)
	}
}

func TestAFileThatCannotBeOpened(t *testing.T) {
	path := t.TempDir() + "/nope"
	for _, opt := range []Options{{}, {Preprocess: true}} {
		tree, err := Load(path, opt)
		want := fmt.Sprintf("Cannot open %q: no such file or directory", path)
		if tree != nil || !errors.Is(err, fs.ErrNotExist) || err.Error() != want {
			t.Errorf("got  %v\nwant %v", err, want)
		}
	}
}

func TestManPageExample(t *testing.T) {
	tree, err := Load("testdata/manpage.pmns", Options{Preprocess: true, Unique: true})
	want := "network.intrate 1.26.1, network.packetrate.in 1.26.35, network.packetrate.out 1.26.36, " +
		"cpu.syscallrate 1.10.10, cpu.util.user 1.10.20, cpu.util.sys 1.10.21, cpu.util.idle 1.10.22, dynamic 387.*.*"
	if got := listing(tree); got != want || err != nil {
		t.Errorf("got  %q, %v\nwant %q", got, err, want)
	}
}

func TestMemoryFollowsMaxBytes(t *testing.T) {
	text := root(strings.Repeat("a ", 1000))
	for _, most := range []int64{1, 100, int64(len(text)), 30000} {
		if _, err := Parse("f", strings.NewReader(text), Options{MaxBytes: most}); !errors.Is(err, ErrSize) {
			t.Errorf("%d: %v", most, err)
		}
	}
	// A few bytes can make long names.
	path := strings.Repeat("a.", maxLine/2-8) + "a"
	var b strings.Builder
	b.WriteString(path + " { ")
	for i := range 5000 {
		fmt.Fprintf(&b, "n%d 1:1:1\n", i)
	}
	b.WriteString("}\n" + root(""))
	if _, err := Parse("f", strings.NewReader(b.String()), Options{}); !errors.Is(err, ErrSize) {
		t.Errorf("long names: %v", err)
	}
}

func TestDeepTreesAreRead(t *testing.T) {
	// 1000 levels: each name contains its whole path.
	var b strings.Builder
	b.WriteString("root { a }\n")
	path := "a"
	for range 1000 {
		fmt.Fprintf(&b, "%s { a }\n", path)
		path += ".a"
	}
	fmt.Fprintf(&b, "%s { b 1:1:1 }\n", path)
	tree, err := Parse("f", strings.NewReader(b.String()), Options{})
	if err != nil || tree.Len() != 1 {
		t.Fatal(err)
	}
	if e := tree.Find(path + ".b"); e.Kind != Leaf {
		t.Errorf("got %v", e.Kind)
	}
	if got := tree.Children(path[2:]); len(got) != 1 || got[0].Leaf {
		t.Errorf("got %v", got)
	}
}

// TestTestdata loads the files in testdata. Files with names that begin with bad must
// fail.
func TestTestdata(t *testing.T) {
	files, err := filepath.Glob("testdata/*.pmns")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		tree, err := Load(f, Options{Preprocess: true, Shell: Shell(t.Context())})
		if bad := strings.HasPrefix(f, "testdata/bad"); bad != (err != nil) {
			t.Errorf("%s: %v", f, err)
		}
		if err == nil {
			checkTree(t, tree, false)
		}
	}
}
