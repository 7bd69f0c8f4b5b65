package roothelper_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gopcp/pmcd/internal/launch/roothelper"
	"github.com/gopcp/pmcd/pmcdconf"
)

// pmcd checks the agents at its start, and tells the admin what to change.
func ExampleCheckAgent() {
	conf, err := pmcdconf.ParseFile(context.Background(), "/etc/pcp/pmcd/pmcd.conf", pmcdconf.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := range conf.Agents {
		a := &conf.Agents[i]
		var untrusted *roothelper.Untrusted
		if err := roothelper.CheckAgent(a); errors.As(err, &untrusted) {
			fmt.Printf("%s runs without root's rights: %v\n%s\n", a.Name, err, untrusted.Remedy())
		} else if err != nil {
			fmt.Printf("%s: %v\n", a.Name, err)
		}
	}
}
