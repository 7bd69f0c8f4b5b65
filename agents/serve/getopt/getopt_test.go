package getopt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// recorder returns options whose Set functions append to calls.
func recorder() (options []Option, calls *[]string) {
	calls = new([]string)
	record := func(name string) func(string) error {
		return func(arg string) error {
			*calls = append(*calls, name+"="+arg)
			if arg == "bad" {
				return errors.New("bad " + name)
			}
			return nil
		}
	}
	return []Option{
		{Text: "Heading"},
		{Short: 'd', Long: "domain", Arg: "NUM", Text: "a number", Set: record("d")},
		{Short: 'p', Long: "pipe", Text: "a flag", Set: record("p")},
		{Short: '6', Long: "ipv6", Arg: "PORT", Text: "a digit", Set: record("6")},
		{Short: 'i', Long: "inet", Arg: "PORT", Text: "like another", Set: record("i")},
		{Long: "only-a-name", Arg: "AVERYLONGARGUMENT", Text: "no letter", Set: record("o")},
		{Short: 'x', Arg: "X", Text: "no name", Set: record("x")},
		{Short: 'h', Long: "hidden", Set: record("h")},
		{Long: "pipeline", Whole: true, Set: record("l")},
	}, calls
}

// Parse works like getopt_long(3) with POSIXLY_CORRECT.
func TestParse(t *testing.T) {
	for _, tt := range []struct {
		args  string // separated by blanks; "." is an empty argument
		calls string
		rest  string
		errs  string
	}{
		{args: ""},
		{args: "-d 5", calls: "d=5"},
		{args: "-d5", calls: "d=5"},
		{args: "-d -5", calls: "d=-5"},
		{args: "-d .", calls: "d="},
		{args: "-d --", calls: "d=--"},
		{args: "-pd 5", calls: "p= d=5"},
		{args: "-ppd5p", calls: "p= p= d=5p"},
		{args: "-6 1 -61", calls: "6=1 6=1"},
		{args: "-d 5 a -p b", calls: "d=5", rest: "a -p b"},
		{args: "-p -- -d 5", calls: "p=", rest: "-d 5"},
		{args: "-p - -d", calls: "p=", rest: "- -d"},
		{args: ". -p", rest: ". -p"},
		{args: "--domain 5 --domain=6 --domain= --dom 7", calls: "d=5 d=6 d= d=7"},
		{args: "--pipe -p --pi", calls: "p= p= p="},
		{args: "--pipeline --pi --p", calls: "l= p= p="},
		{args: "--pipel", errs: "unrecognized option '--pipel'"},
		{args: "--inet 1 --ipv6=2 --in 3", calls: "i=1 6=2 i=3"},
		{args: "--only-a-name 1", calls: "o=1"},
		{args: "-x 1", calls: "x=1"},
		{args: "-d", errs: "option requires an argument -- 'd'"},
		{args: "-pd", calls: "p=", errs: "option requires an argument -- 'd'"},
		{args: "-Z", errs: "invalid option -- 'Z'"},
		{args: "-Zp -d 1", calls: "p= d=1", errs: "invalid option -- 'Z'"},
		{args: "-d bad -p", calls: "d=bad p=", errs: "bad d"},
		{args: "--bogus --bogus=1", errs: "unrecognized option '--bogus'|unrecognized option '--bogus=1'"},
		{args: "--domain", errs: "option '--domain' requires an argument"},
		{args: "--pipe=3", errs: "option '--pipe' doesn't allow an argument"},
		{args: "--i 5", rest: "5", errs: "option '--i' is ambiguous; possibilities: '--ipv6' '--inet'"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var args []string
			for _, a := range strings.Fields(tt.args) {
				args = append(args, strings.TrimPrefix(a, "."))
			}
			options, calls := recorder()
			rest, errs := Parse(options, args)
			var texts []string
			for _, e := range errs {
				texts = append(texts, e.Error())
			}
			var words []string
			for _, r := range rest {
				if r == "" {
					r = "."
				}
				words = append(words, r)
			}
			got := fmt.Sprintf("%s; %s; %s", strings.Join(*calls, " "), strings.Join(words, " "), strings.Join(texts, "|"))
			if want := fmt.Sprintf("%s; %s; %s", tt.calls, tt.rest, tt.errs); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestUsage(t *testing.T) {
	options, _ := recorder()
	want := `Usage: prog [options] word

Heading:
  -d NUM, --domain=NUM  a number
  -p, --pipe            a flag
  -6 PORT, --ipv6=PORT  a digit
  -i PORT, --inet=PORT  like another
  --only-a-name=AVERYLONGARGUMENT
                        no letter
  -x X                  no name
`
	if got := Usage("prog", "[options] word", options); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// The arguments are the end of the command line, and each word is parsed once.
func FuzzParse(f *testing.F) {
	f.Add("-d 5 --pipe -6 x a b")
	f.Add("-pd5 --only=1 -- -x")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		options, calls := recorder()
		rest, errs := Parse(options, args)
		if len(rest) > len(args) || !slices.Equal(rest, args[len(args)-len(rest):]) {
			t.Errorf("%q: rest %q", args, rest)
		}
		if n := len(*calls) + len(errs); n > 2*len(line) {
			t.Errorf("%q: %d options", args, n)
		}
	})
}
