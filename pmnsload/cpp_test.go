package pmnsload

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// cppFiles can be included by every case of cppTests.
var cppFiles = map[string]string{
	"one":      "one\n",
	"empty":    "",
	"ifdef":    "#ifdef X\n",
	"open":     "/* open\n",
	"l1":       "1\n#include \"l2\"\n",
	"l2":       "2\n#include \"l3\"\n",
	"l3":       "3\n#include \"l4\"\n",
	"l4":       "4\n",
	"l5":       "5\n#include \"l1\"\n",
	"last":     "a\nb",
	"dir/near": "near\n#include \"far\"\n",
	"dir/far":  "far\n",
	"inc/far":  "far in inc\n",
}

// cppTests are texts with the output of pmcpp. TestPeerCpp compares them with pmcpp.
var cppTests = []struct {
	name    string
	in      string
	out     string
	err     string // as pmcpp prints it, without "pmcpp: " and "pmcpp: Error: "
	differs string // why pmcpp does otherwise
}{
	// Lines.
	{name: "no text is only a marker", in: "", out: "# 1 \"f\"\n"},
	{name: "blank lines and trailing blanks stay", in: "\n a \t\n", out: "# 1 \"f\"\n\n a \t\n"},
	{name: "a carriage return stays", in: "a\r\n", out: "# 1 \"f\"\na\r\n"},
	{name: "a last line without newline counts", in: "a\nb", out: "# 1 \"f\"\na\nb\n", differs: "pmcpp drops the line"},
	{name: "other # lines pass", in: "#if A\n#elif\n# define A 1\n#\n##\nA\n", out: "# 1 \"f\"\n#if A\n#elif\n# define A 1\n#\n##\nA\n"},
	{name: "markers in the text pass", in: "# 7 \"x\"\n", out: "# 1 \"f\"\n# 7 \"x\"\n"},
	{name: "a # in another column is no control line", in: " #define A 1\nA\n", out: "# 1 \"f\"\n #define A 1\nA\n"},
	{name: "case counts", in: "#Define A 1\nA\n", out: "# 1 \"f\"\n#Define A 1\nA\n"},

	// #define, #undef.
	{name: "words are replaced and only whole ones", in: "#define A 1\nA A_ _A A2 2A \"A\" 'A' A.A -A\n", out: "# 1 \"f\"\n\n1 A_ _A A2 21 \"1\" '1' 1.1 -1\n"},
	{name: "a value is not replaced again", in: "#define A B\n#define B A\nA B\n", out: "# 1 \"f\"\n\n\nB A\n"},
	{name: "an empty value", in: "#define A\nx A A;\n", out: "# 1 \"f\"\n\nx  ;\n"},
	{name: "an empty value in quotes", in: "#define A \"\"\n[A]\n", out: "# 1 \"f\"\n\n[]\n"},
	{name: "quotes around a value", in: "#define A \"x \ty'\"\n#define B 'x y\"'\nA B\n", out: "# 1 \"f\"\n\n\nx \ty' x y\"\n"},
	{name: "quotes within a value are no quotes", in: "#define A a\"b'c\n#define B \\\"\nA B\n", out: "# 1 \"f\"\n\n\na\"b'c \\\"\n"},
	{name: "blanks around name and value", in: "#define\t A \t 1\t \nA\n", out: "# 1 \"f\"\n\n1\n"},
	{name: "no blank is needed after the word", in: "#defineA 1\n#undefB\n#ifdefA\nA\n#endif\n", out: "# 1 \"f\"\n\n\n\n1\n\n"},
	{name: "a word that is longer", in: "#define A 1\n#define AB 2\nA AB ABC\n", out: "# 1 \"f\"\n\n\n1 2 ABC\n"},
	{name: "#undef", in: "#define A 1\n#undef A\n#undef B\nA\n#define A 2\nA\n", out: "# 1 \"f\"\n\n\n\nA\n\n2\n"},
	{name: "words are replaced in other # lines", in: "#define A 1\n# A \"A\"\n", out: "# 1 \"f\"\n\n# 1 \"1\"\n"},
	{name: "a value may be any word", in: "#define A {\nA-A\n", out: "# 1 \"f\"\n\n{-{\n"},
	{name: "a comment in a value in quotes", in: "#define A \"x /* y */ z\"\nA\n", out: "# 1 \"f\"\n\nx         z\n"},
	{name: "no macro name", in: "#define \t\n", out: "# 1 \"f\"\n", err: "f[1]: #define \t\nMissing macro name"},
	{name: "no macro name after #undef", in: "a\n#undef\n", out: "# 1 \"f\"\na\n", err: "f[2]: #undef\nMissing macro name"},
	{name: "a macro with parameters", in: "#define A(x) 1\n", out: "# 1 \"f\"\n", err: "f[1]: #define A(x) 1\nIllegal character in macro name"},
	{name: "a macro name with a digit first", in: "#define 1A\n", out: "# 1 \"f\"\n", err: "f[1]: #define 1A\nIllegal character in macro name"},
	{name: "a macro name that is not ASCII", in: "#define \xc3\xa9 1\n", out: "# 1 \"f\"\n", err: "f[1]: #define \xc3\xa9 1\nIllegal character in macro name"},
	{name: "no closing quote", in: "#define A \"x'\n", out: "# 1 \"f\"\n", err: "f[1]: #define A \"x'\nUnterminated value string in #define"},
	{name: "text after a value", in: "#define A x y\n", out: "# 1 \"f\"\n", err: "f[1]: #define A x y\nUnexpected extra text in a control line"},
	{name: "text after a value in quotes", in: "#define A \"x\"y\n", out: "# 1 \"f\"\n", err: "f[1]: #define A \"x\"y\nUnexpected extra text in a control line"},
	{name: "text after #undef", in: "#undef A B\n", out: "# 1 \"f\"\n", err: "f[1]: #undef A B\nUnexpected extra text in a control line"},
	{name: "redefinition to the same value", in: "#define A 1\n#define A 1\n", out: "# 1 \"f\"\n\n", err: "f[2]: #define A 1\nMacro redefinition"},
	{name: "text is told before redefinition", in: "#define A 1\n#define A 1 2\n", out: "# 1 \"f\"\n\n", err: "f[2]: #define A 1 2\nUnexpected extra text in a control line"},

	// Conditionals.
	{name: "#ifdef of no macro", in: "#ifdef A\nx\n#else\ny\n#endif\nz\n", out: "# 1 \"f\"\n\n\n\ny\n\nz\n"},
	{name: "#ifdef of a macro", in: "#define A\n#ifdef A\nx\n#else\ny\n#endif\nz\n", out: "# 1 \"f\"\n\n\nx\n\n\n\nz\n"},
	{name: "#ifndef", in: "#ifndef A\nx\n#else\ny\n#endif\nz\n", out: "# 1 \"f\"\n\nx\n\n\n\nz\n"},
	{name: "a second #else flips back", in: "#ifdef A\nx\n#else\ny\n#else\nz\n#endif\n", out: "# 1 \"f\"\n\n\n\ny\n\n\n\n"},
	{name: "a third #else flips again", in: "#ifdef A\n#else\n#else\n#else\nx\n#endif\n", out: "# 1 \"f\"\n\n\n\n\nx\n\n", differs: "pmcpp calls it a Macro redefinition"},
	{name: "two #else of two branches that are skipped", in: "#ifdef B\n\n#else\n#endif\nA1'\n\n#ifdef B\n#else /**/\n#endif\n", out: "# 1 \"f\"\n\n\n\n\nA1'\n\n\n\n\n", differs: "pmcpp calls the second a Macro redefinition"},
	{name: "nothing is done in a branch that is skipped", in: "#ifdef A\n#include \"nope\"\n#shell \"echo x\"\n#define B 1\n#endif\nB\n", out: "# 1 \"f\"\n\n\n\n\n\nB\n"},
	{name: "#include and #shell may be wrong in a branch that is skipped", in: "#ifdef A\n#include\n#shell x\n#endif\n", out: "# 1 \"f\"\n\n\n\n\n"},
	{name: "a macro is not forgotten in a branch that is skipped", in: "#define B 1\n#ifdef A\n#undef B\n#define B 2\n#endif\nB\n", out: "# 1 \"f\"\n\n\n\n\n\n1\n"},
	{name: "#define may not be wrong in a branch that is skipped", in: "#ifdef A\n#define\n#endif\n", out: "# 1 \"f\"\n\n", err: "f[2]: #define\nMissing macro name"},
	{name: "#undef may not be wrong in a branch that is skipped", in: "#ifdef A\n#undef A B\n#endif\n", out: "# 1 \"f\"\n\n", err: "f[2]: #undef A B\nUnexpected extra text in a control line"},
	{name: "other # lines in a branch that is skipped", in: "#ifdef A\n#foo\n# 7 \"x\"\ny\n#endif\n", out: "# 1 \"f\"\n\n\n\n\n\n", differs: "pmcpp passes the line and turns the branch into the one taken"},
	{name: "a comment over #endif", in: "#ifdef A\n/* x\n#endif\n*/\n#endif\nz\n", out: "# 1 \"f\"\n\n\n\n\n\nz\n"},
	{name: "an #ifdef goes on after an include", in: "#include \"ifdef\"\nx\n#endif\ny\n", out: "# 1 \"f\"\n# 1 \"ifdef\"\n\n# 2 \"f\"\n\n\ny\n"},
	{name: "nesting in the branch taken", in: "#ifndef A\n#ifdef B\n", out: "# 1 \"f\"\n\n", err: "f[2]: #ifdef B\nNested #ifdef or #ifndef"},
	{name: "nesting in the branch skipped", in: "#ifdef A\n#ifndef B\n", out: "# 1 \"f\"\n\n", err: "f[2]: #ifndef B\nNested #ifdef or #ifndef"},
	{name: "no name after #ifdef", in: "#ifdef\n", out: "# 1 \"f\"\n", err: "f[1]: #ifdef\nMissing macro name"},
	{name: "no macro name after #ifdef", in: "#ifdef \"A\"\n", out: "# 1 \"f\"\n", err: "f[1]: #ifdef \"A\"\nIllegal character in macro name"},
	{name: "text after #ifndef", in: "#ifndef A /* x */ !\n", out: "# 1 \"f\"\n", err: "f[1]: #ifndef A         !\nUnexpected extra text in a control line"},
	{name: "text after #else", in: "#elsewhere\n", out: "# 1 \"f\"\n", err: "f[1]: #elsewhere\nUnexpected extra text in a control line"},
	{name: "text after #endif", in: "#endif x\n", out: "# 1 \"f\"\n", err: "f[1]: #endif x\nUnexpected extra text in a control line"},
	{name: "#else alone", in: "#else/* x */\n", out: "# 1 \"f\"\n", err: "f[1]: #else\nNo matching #ifdef or #ifndef for #else"},
	{name: "#endif alone", in: "#ifdef A\n#endif\n#endif /* x */\n", out: "# 1 \"f\"\n\n\n", err: "f[3]: #endif\nNo matching #ifdef or #ifndef for #endif"},
	{name: "no #endif", in: "a\n#ifdef A\n#else\nx\n", out: "# 1 \"f\"\na\n\n\nx\n", err: "f:\nEnd of input and no matching #endif for #ifdef or #ifndef at line 2"},
	{name: "no #endif after the branch that is skipped", in: "#define A\n#ifdef A\n#else\n", out: "# 1 \"f\"\n\n\n\n", err: "f:\nEnd of input and no matching #endif for #ifdef or #ifndef at line 2", differs: "pmcpp says line 0"},

	// Comments.
	{name: "a comment is blanks", in: "a /* b */ c\na/**/b\n", out: "# 1 \"f\"\na         c\na    b\n"},
	{name: "blanks at the end of a line with a comment go", in: "a  /* b */ \t\n /* c */ d \n\t/**/\r\n", out: "# 1 \"f\"\na\n         d\n\n"},
	{name: "a comment of several lines", in: "a /* b\n c \n\nd */ e /* f\n*/\n", out: "# 1 \"f\"\na\n\n\n     e\n\n"},
	{name: "a comment in a string", in: "\"/* a */\"\n", out: "# 1 \"f\"\n\"       \"\n"},
	{name: "no comment begins in a comment", in: "/* /* */ */\n/*/ x */ y\n", out: "# 1 \"f\"\n         */\n         y\n"},
	{name: "comments side by side", in: "/* x *//* y\n*//* z */w\n//* x */\n", out: "# 1 \"f\"\n\n         w\n/\n"},
	{name: "// is no comment", in: "a // b\n", out: "# 1 \"f\"\na // b\n"},
	{name: "what no comment is", in: "*/ / * x */ /\n", out: "# 1 \"f\"\n*/ / * x */ /\n"},
	{name: "a control line within a comment", in: "/*\n#include \"nope\"\n*/\n", out: "# 1 \"f\"\n\n\n\n"},
	{name: "a control line after a comment", in: "/**/#define A 1\n/*\n*/#define A 1\nA\n", out: "# 1 \"f\"\n    #define A 1\n\n  #define A 1\nA\n"},
	{name: "a comment within a control line", in: "#ifdef/* */A/*\n*/\n#endif /*\n */ x\n", out: "# 1 \"f\"\n\n\n\n    x\n"},
	{name: "a comment goes on after an include", in: "#include \"open\"\nx */ y\n", out: "# 1 \"f\"\n# 1 \"open\"\n\n# 2 \"f\"\n     y\n"},
	{name: "a comment goes on into an include", in: "#include \"one\" /* x\n y */ z\n", out: "# 1 \"f\"\n# 1 \"one\"\n\n# 2 \"f\"\n      z\n"},
	{name: "no end of a comment", in: "a\nb /* c\nd\n", out: "# 1 \"f\"\na\nb\n\n", err: "f:\nComment at line 2 not terminated before end of file"},
	{name: "no end of a comment is told before no #endif", in: "#ifdef A\n/*\n", out: "# 1 \"f\"\n\n\n", err: "f:\nComment at line 2 not terminated before end of file"},

	// #include.
	{name: "an include", in: "a\n#include \"one\"\nb\n", out: "# 1 \"f\"\na\n# 1 \"one\"\none\n# 3 \"f\"\nb\n"},
	{name: "an include at the end", in: "#include <one>\n", out: "# 1 \"f\"\n# 1 \"one\"\none\n# 2 \"f\"\n"},
	{name: "an include without blank", in: "#include\"one\" \t\r\n", out: "# 1 \"f\"\n# 1 \"one\"\none\n# 2 \"f\"\n"},
	{name: "an include of no text", in: "#include <empty>\n#include </dev/null>\n", out: "# 1 \"f\"\n# 1 \"empty\"\n# 2 \"f\"\n# 1 \"/dev/null\"\n# 3 \"f\"\n"},
	{name: "an include without newline at its end", in: "#include \"last\"\nc\n", out: "# 1 \"f\"\n# 1 \"last\"\na\nb\n# 2 \"f\"\nc\n", differs: "pmcpp drops the line"},
	{name: "four levels of include", in: "#include \"l1\"\n", out: "# 1 \"f\"\n# 1 \"l1\"\n1\n# 1 \"l2\"\n2\n# 1 \"l3\"\n3\n# 1 \"l4\"\n4\n# 3 \"l3\"\n# 3 \"l2\"\n# 3 \"l1\"\n# 2 \"f\"\n"},
	{name: "five levels of include", in: "#include \"l5\"\n", out: "# 1 \"f\"\n# 1 \"l5\"\n5\n# 1 \"l1\"\n1\n# 1 \"l2\"\n2\n# 1 \"l3\"\n3\n", err: "l3[2]: #include \"l4\"\n#include and/or #shell nesting too deep"},
	{name: "a file that includes itself", in: "#include \"f\"\n", out: "# 1 \"f\"\n# 1 \"f\"\n# 1 \"f\"\n# 1 \"f\"\n# 1 \"f\"\n", err: "f[1]: #include \"f\"\n#include and/or #shell nesting too deep"},
	{name: "a macro does not name an include", in: "#define A one\n#include \"A\"\n", out: "# 1 \"f\"\n\n", err: "f[2]: #include \"A\"\nCannot open file for #include"},
	{name: "an include of a directory", in: "#include \"dir\"\n", out: "# 1 \"f\"\n", err: "f[1]: #include \"dir\"\nCannot open file for #include"},
	{name: "an include of no name", in: "#include \"\"\n", out: "# 1 \"f\"\n", err: "f[1]: #include \"\"\nCannot open file for #include"},
	{name: "an include of a name with blanks", in: "#include < one>\n", out: "# 1 \"f\"\n", err: "f[1]: #include < one>\nCannot open file for #include"},
	{name: "an include without quotes", in: "#include  one\n", out: "# 1 \"f\"\n", err: "f[1]: #include  one\nExpected \" or < after #include"},
	{name: "an include with another word", in: "#included \"one\"\n", out: "# 1 \"f\"\n", err: "f[1]: #included \"one\"\nExpected \" or < after #include"},
	{name: "an include with the wrong quote", in: "#include \"one>\n", out: "# 1 \"f\"\n", err: "f[1]: #include \"one>\nExpected \" after file name"},
	{name: "an include without closing >", in: "#include <one\n", out: "# 1 \"f\"\n", err: "f[1]: #include <one\nExpected > after file name"},
	{name: "text after an include", in: "#include \"one\" // x\n", out: "# 1 \"f\"\n", err: "f[1]: #include \"one\" // x\nUnexpected extra text in #include line"},

	// #shell.
	{name: "a command", in: "#shell \"echo 'a b'; echo c\"\nd\n", out: "# 1 \"f\"\n# 1 \"<shell>\"\na b\nc\n# 2 \"f\"\nd\n"},
	{name: "a command without output", in: "#shell'true'\n#shell \"\"\n", out: "# 1 \"f\"\n# 1 \"<shell>\"\n# 2 \"f\"\n# 1 \"<shell>\"\n# 3 \"f\"\n"},
	{name: "the output of a command is read like a file", in: "#shell 'echo \"#define A 7\"; echo \"/* A */ A\"'\nA\n", out: "# 1 \"f\"\n# 1 \"<shell>\"\n\n        7\n# 2 \"f\"\n7\n"},
	{name: "a command without quotes", in: "#shell echo\n", out: "# 1 \"f\"\n", err: "f[1]: #shell echo\nExpected \" or ' after #shell"},
	{name: "a command without closing quote", in: "#shell 'echo\n", out: "# 1 \"f\"\n", err: "f[1]: #shell 'echo\nExpected ' after command"},
	{name: "text after a command", in: "#shell 'echo' x\n", out: "# 1 \"f\"\n", err: "f[1]: #shell 'echo' x\nUnexpected extra text in #shell line"},
	{name: "a command that is too deep", in: "#shell 'cat f'\n", out: "# 1 \"f\"\n# 1 \"<shell>\"\n# 1 \"<shell>\"\n# 1 \"<shell>\"\n# 1 \"<shell>\"\n", err: "<shell>[1]: #shell 'cat f'\n#shell and/or #include nesting too deep"},
	{name: "an error in the output of a command", in: "#shell 'echo \"#endif\"'\n", out: "# 1 \"f\"\n# 1 \"<shell>\"\n", err: "<shell>[1]: #endif\nNo matching #ifdef or #ifndef for #endif"},
}

// chdirTo makes a directory with the files the current directory.
func chdirTo(t testing.TB, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		at := dir + "/" + name
		if i := strings.LastIndexByte(name, '/'); i >= 0 {
			if err := os.MkdirAll(dir+"/"+name[:i], 0o777); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(at, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

func TestPreprocess(t *testing.T) {
	chdirTo(t, cppFiles)
	for _, tt := range cppTests {
		t.Run(tt.name, func(t *testing.T) {
			if err := os.WriteFile("f", []byte(tt.in), 0o666); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := preprocess(&out, "f", Options{Shell: Shell(t.Context())})
			if got := cppReason(t, err); got != tt.err {
				t.Errorf("%q: error\n%s\nwant\n%s", tt.in, got, tt.err)
			}
			if out.String() != tt.out {
				t.Errorf("%q:\ngot  %q\nwant %q", tt.in, out.String(), tt.out)
			}
		})
	}
}

// cppReason returns the two lines that pmcpp prints for err.
func cppReason(t *testing.T, err error) string {
	if err == nil {
		return ""
	}
	var e *Error
	if !errors.As(err, &e) || !errors.Is(err, ErrCpp) {
		return err.Error()
	}
	lines := strings.Split(e.Detail(), "\n")
	if len(lines) != 3 || lines[2] != "Error Parsing ASCII PMNS: pmcpp returned non-zero exit status" {
		t.Errorf("Detail is %q", e.Detail())
		return ""
	}
	return strings.TrimPrefix(lines[0], "pmcpp: ") + "\n" + strings.TrimPrefix(lines[1], "pmcpp: Error: ")
}

func TestIncludeSearchesTheDirectoryOfTheFirstFileAndTheIncludePath(t *testing.T) {
	chdirTo(t, cppFiles)
	top := "dir/top"
	if err := os.WriteFile(top, []byte("#include \"near\"\n#include \"one\"\n#include <only>\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("inc/only", []byte("only in inc\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	err := preprocess(&out, top, Options{IncludePath: []string{"nope", "inc"}})
	want := "# 1 \"dir/top\"\n# 1 \"dir/near\"\nnear\n# 1 \"dir/far\"\nfar\n# 3 \"dir/near\"\n# 2 \"dir/top\"\n" +
		"# 1 \"one\"\none\n# 3 \"dir/top\"\n# 1 \"inc/only\"\nonly in inc\n# 4 \"dir/top\"\n"
	if err != nil || out.String() != want {
		t.Errorf("got  %q, %v\nwant %q", out.String(), err, want)
	}
}

func TestAFailedCommandIsAWarning(t *testing.T) {
	for command, want := range map[string]string{
		"echo x; exit 3":      "f:2: #shell cmd returns 3 exit status",
		"echo x; kill -9 $$":  "f:2: #shell cmd terminated by signal 9",
		"echo x; nope 2>&-":   "f:2: #shell cmd returns 127 exit status",
		"echo x; echo y 1>&2": "",
	} {
		var warned string
		opt := Options{
			Open:  memory(map[string]string{"f": "\n#shell \"" + command + "\"\n"}),
			Shell: Shell(t.Context()),
			Warn:  func(e *Error) { warned += e.Error() },
		}
		var out strings.Builder
		err := preprocess(&out, "f", opt)
		if err != nil || warned != want || !strings.Contains(out.String(), "\nx\n") {
			t.Errorf("%s: %q, %v, warning %q, want %q", command, out.String(), err, warned, want)
		}
	}
}

func TestAWarningTellsWhatTheCommandSaid(t *testing.T) {
	rc, err := Shell(t.Context())("echo no >&2; exit 1")
	if err != nil {
		t.Fatal(err)
	}
	io.Copy(io.Discard, rc)
	if got, want := fmt.Sprint(rc.Close()), "#shell cmd returns 1 exit status (no)"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWithoutAShellNoCommandIsRun(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	files := memory(map[string]string{
		"f":   "#ifdef NO\n#shell 'skipped'\n#endif\n#include \"sub\"\n",
		"sub": "\n#shell '>" + ran + "; echo root { }'\n",
	})
	for name, load := range map[string]func(Options) error{
		"Preprocess": func(opt Options) error { return preprocess(io.Discard, "f", opt) },
		"Load": func(opt Options) error {
			_, err := Load("f", opt)
			return err
		},
	} {
		err := load(Options{Open: files, Preprocess: true})
		if !errors.Is(err, ErrCpp) || !errors.Is(err, ErrShell) {
			t.Errorf("%s: error is %v", name, err)
		}
		if got, want := fmt.Sprint(err), "sub:2: Cannot run the command of #shell: commands are not allowed"; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Errorf("%s: the command was run", name)
		}
	}
}

func TestAShellThatCannotRunIsAnError(t *testing.T) {
	opt := Options{
		Open:  memory(map[string]string{"f": "#shell 'echo'\n"}),
		Shell: func(string) (io.ReadCloser, error) { return nil, fs.ErrPermission },
	}
	err := preprocess(io.Discard, "f", opt)
	if !errors.Is(err, ErrCpp) || !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error is %v", err)
	}
}

// memory opens files that exist only in memory.
func memory(files map[string]string) func(string) (io.ReadCloser, error) {
	return func(path string) (io.ReadCloser, error) {
		text, ok := files[path]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
}

func TestHostileTextIsBounded(t *testing.T) {
	const most = 1 << 20
	many := func(s string) string { return strings.Repeat(s, 30000) }
	for _, tt := range []struct {
		name, text string
		want       error
	}{
		{"includes without end", many("#include \"f\"\n"), ErrCpp}, // too deep at once
		{"a tree of includes", many("#include \"l\"\n"), ErrSize},
		{"macros that make more of a line", "#define A " + many("x") + "\n" + many("A\n"), ErrSize},
		{"macros that make a long line", "#define A " + many("x") + "\n" + many("A "), ErrLine},
		{"a long line", strings.Repeat("x", maxLine+1), ErrLine},
		{"a file that does not end", "#include \"/dev/zero\"\n", ErrCpp}, // is not opened
		{"a command that does not end", "#shell 'yes'\n", ErrSize},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := memory(map[string]string{"f": tt.text, "l": many("l\n")})
			opt := Options{
				MaxBytes: most,
				Shell:    Shell(t.Context()),
				Open: func(path string) (io.ReadCloser, error) {
					if path == "/dev/zero" {
						return openFile(path)
					}
					return files(path)
				},
			}
			var out bytes.Buffer
			err := preprocess(&out, "f", opt)
			if !errors.Is(err, tt.want) || out.Len() > most+maxLine {
				t.Errorf("%v, %d bytes", err, out.Len())
			}
		})
	}
}

func TestOnlyRegularFilesAreOpened(t *testing.T) {
	// Opening a FIFO would wait for a writer, and a sparse file has no end.
	dir := t.TempDir()
	file := dir + "/sparse"
	if err := errors.Join(syscall.Mkfifo(dir+"/pipe", 0o600), os.WriteFile(file, nil, 0o600), os.Truncate(file, 1<<40)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir + "/pipe", dir, "/dev/zero"} {
		_, err := Load(path, Options{})
		if want := fmt.Sprintf("Cannot open %q: not a regular file", path); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	if _, err := Load(file, Options{}); !errors.Is(err, ErrLine) {
		t.Errorf("a sparse file: got %v, want %v", err, ErrLine)
	}
}

// preprocess writes the output of the preprocessor for a file to w, up to the
// first error.
func preprocess(w io.Writer, path string, options Options) error {
	opt := options.withDefaults()
	opt.Preprocess = true
	rc, err := opt.Open(path)
	if err != nil {
		return cannotOpen(path, err)
	}
	src, done := opt.source(path, rc, &budget{opt.MaxBytes})
	defer done()
	out := bufio.NewWriter(w)
	for {
		line, err := src.next()
		if err != nil {
			flushed := out.Flush()
			if e, ok := err.(*Error); ok {
				return ErrorList{e}
			}
			return flushed // err is io.EOF
		}
		out.Write(line)
		out.WriteByte('\n') // the error sticks
	}
}
