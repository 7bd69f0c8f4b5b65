package getopt_test

import (
	"fmt"

	"github.com/gopcp/pmcd/agents/serve/getopt"
)

func ExampleParse() {
	domain, verbose := "", false
	options := []getopt.Option{
		{Text: "Options"},
		{Short: 'd', Long: "domain", Arg: "NUM", Text: "number of the domain", Set: func(arg string) error {
			domain = arg
			return nil
		}},
		{Short: 'v', Long: "verbose", Text: "print more", Set: func(string) error {
			verbose = true
			return nil
		}},
	}
	args, errs := getopt.Parse(options, []string{"-vd", "400", "--verb", "file"})
	fmt.Println(domain, verbose, args, errs)
	fmt.Print(getopt.Usage("prog", "[options] file", options))
	// Output:
	// 400 true [file] []
	// Usage: prog [options] file
	//
	// Options:
	//   -d NUM, --domain=NUM  number of the domain
	//   -v, --verbose         print more
}
