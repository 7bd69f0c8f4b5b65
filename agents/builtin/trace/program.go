package trace

import (
	"github.com/gopcp/pmcd/agents"
	"github.com/gopcp/pmcd/agents/serve"
)

// Program returns the agent as the program pmdatrace of PCP.
func Program() serve.Program {
	var o Options
	return serve.Program{
		Name:       "pmdatrace",
		Domain:     Domain,
		Log:        "trace.log",
		UserOption: 'M', // -U is another option
		Options: []serve.Option{
			{Short: 'A', Long: "access", Arg: "RULE", Text: "allow:HOST:MAX or disallow:HOST: which hosts may connect, and how often", Set: func(s string) error {
				_, err := parseAccess(s)
				o.Access = append(o.Access, s)
				return err
			}},
			{Short: 'I', Long: "port", Arg: "PORT", Text: "port for clients (default 4323)", Set: set(&o.Port, parsePort)},
			{Short: 'N', Long: "buckets", Arg: "N", Text: "how often rates are computed in a period (default 5)", Set: set(&o.Buckets, parseBuckets)},
			{Short: 'T', Long: "period", Arg: "TIME", Text: "time over which rates are computed (default 60 seconds)", Set: set(&o.Period, parsePeriod)},
			{Short: 'U', Long: "observe-units", Arg: "UNITS", Text: "units of trace.observe.value: six numbers with commas", Set: set(&o.ObserveUnits, parseUnits)},
			{Short: 'V', Long: "counter-units", Arg: "UNITS", Text: "units of trace.counter.value", Set: set(&o.CounterUnits, parseUnits)},
		},
		New: func(s serve.Start) (agents.Agent, error) {
			o.Log, o.Debug = s.Log, s.Debug
			return Open(s.Domain, o)
		},
	}
}

// set returns a function that sets *v to what parse returns.
func set[T any](v *T, parse func(string) (T, error)) func(string) error {
	return func(s string) (err error) {
		*v, err = parse(s)
		return err
	}
}
