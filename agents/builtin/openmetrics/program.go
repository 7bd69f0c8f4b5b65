package openmetrics

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
	"github.com/gopcp/pmcd/pmcdconf/pcpconf"
)

// Program returns the agent as a program: pmdaopenmetrics.
func Program() serve.Program {
	var o Options
	set := func(v *bool) func(string) error { return func(string) error { *v = true; return nil } }
	str := func(v *string) func(string) error { return func(s string) error { *v = s; return nil } }
	return serve.Program{
		Name:       "pmdaopenmetrics",
		Domain:     Domain,
		Log:        "openmetrics.log",
		UserOption: 'u',
		Options: []serve.Option{
			{Short: 'D', Long: "debug", Text: "log each read of a source", Set: set(&o.Debug)},
			{Short: 'c', Long: "config", Arg: "DIR", Text: "directory of sources, by default config.d", Set: str(&o.Dir)},
			{Short: 'n', Long: "nosort", Text: "number new sources in the order of the directory", Set: set(&o.NoSort)},
			{Short: 'r', Long: "root", Arg: "NAME", Text: "root of the names of metrics, by default openmetrics", Set: str(&o.Root)},
			{Long: "no-scripts", Text: "ignore scripts in the directory of sources", Set: set(&o.NoScripts)},
			{Short: 't', Long: "timeout", Arg: "SECONDS", Text: "longest read of a source, by default 2 seconds", Set: func(s string) error {
				n, err := strconv.Atoi(s)
				if err != nil || n < 1 || n > 3600 {
					return fmt.Errorf("-t %s is not a number of seconds from 1 to 3600", s)
				}
				o.Timeout = time.Duration(n) * time.Second
				return nil
			}},
		},
		New: func(s serve.Start) (agents.Agent, error) {
			o.Log = s.Log
			// Scripts are PCP's way to have metrics of anything. Without PCP, there are none yet
			// that an admin may expect to run.
			o.NoScripts = o.NoScripts || !pcpconf.Exists(os.LookupEnv)
			return Open(s.Domain, o)
		},
		Prepare: func(ctx context.Context, a agents.Agent) { Prepare(ctx, a) },
	}
}
