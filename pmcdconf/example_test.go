package pmcdconf_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/pmcdconf"
)

func ExampleParse() {
	conf, err := pmcdconf.Parse("pmcd.conf", strings.NewReader(`
# Name	Domain	Type	Parameters
pmcd	2	dso	pmcd_init	/var/lib/pcp/pmdas/pmcd/pmda_pmcd.so
sample	29	pipe	binary		/var/lib/pcp/pmdas/sample/pmdasample -d 29
`), pmcdconf.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, a := range conf.Agents {
		fmt.Println(a.Domain, a.Name, a.Kind, a)
	}
	// Output:
	// 2 pmcd dso dso i:0  lib=/var/lib/pcp/pmdas/pmcd/pmda_pmcd.so entry=pmcd_init
	// 29 sample pipe bin pipe cmd=/var/lib/pcp/pmdas/sample/pmdasample -d 29
}

// A mistake can be printed for a user, with its position, and as C pmcd logs it.
func ExampleErrorList() {
	_, err := pmcdconf.Parse("pmcd.conf", strings.NewReader("sample 2900 pipe binary pmdasample\n"), pmcdconf.Options{})
	var list pmcdconf.ErrorList
	if !errors.As(err, &list) {
		return
	}
	for _, e := range list {
		fmt.Println(e.Detail())
		fmt.Println(e.PCP())
	}
	// Output:
	// pmcd.conf:1:8: Illegal domain number (2900) for "sample" agent
	// 	sample 2900 pipe binary pmdasample
	// 	       ^
	// pmcd config[line 1]: Error: Illegal domain number (2900) for "sample" agent
}
