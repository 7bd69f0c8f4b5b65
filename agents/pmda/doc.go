// Package pmda makes agents from tables of metrics. It is to Go what libpcp_pmda
// (PMDA(3)) is to C.
//
// Each metric in the table has a function that sets its value:
//
//	func NewAgent(domain int) (agents.Agent, error) {
//		start := time.Now()
//		return pmda.New(pmda.Config{
//			Name:   "uptime",
//			Domain: domain,
//			Metrics: []pmda.Metric{{
//				Cluster: 0, Item: 0, Name: "uptime.seconds",
//				Type: pdu.MetricDouble, Sem: pdu.SemCounter, Units: pdu.NewUnits(0, 1, 0, 0, pdu.TimeSec, 0),
//				OneLine: "time since the agent has started",
//				Fetch: func(_ context.Context, v *pmda.Value) error {
//					v.SetFloat(time.Since(start).Seconds())
//					return nil
//				},
//			}},
//		})
//	}
//
// New returns an [agents.Agent]. Package agents/serve makes it a program that any
// pmcd can start, C pmcd included; or it is built as a Go plugin (docs/plugins.md)
// or compiled into pmcd. Clients find a metric by its name in the PMNS of the
// host, which an admin extends (pmnsadd(1)). For domain 400, the entry of the
// metric above is
//
//	uptime { seconds 400:0:0 }
//
// # Instances
//
// A metric with several values has an instance domain, an [InDom]. Its [Instances]
// are a [List] or a cache.Cache, which assigns ids to names and keeps them on
// disk. The function of the metric is called once for each instance that the
// client requests.
//
// # Sources
//
// Often several metrics have their values from one file or one query. This is a
// [Source]. It is read at most once in a request, and only if the request is for
// one of its metrics or instance domains:
//
//	stat := &pmda.Source{Read: readStat}
//	cpus := &pmda.InDom{Serial: 0, Insts: &cpuList, Source: stat}
//
// # Errors
//
// If a function returns an error, the client gets the code that [pdu.ErrnoOf]
// finds in it, which is a pdu.Errno or a syscall.Errno. An error without a code is
// PM_ERR_GENERIC to the client, and its text is logged. Errors of instance labels
// and Subtrees do not reach clients, and are always logged. The same error is
// logged once until it changes, and no more than once a minute.
//
// Defaults are those of libpcp_pmda: a metric without a FetchFunc has no value, a
// store into a metric without a StoreFunc fails with PM_ERR_PERMISSION, and a
// missing help text is PM_ERR_TEXT.
//
// # Calls
//
// The functions of an agent are called one at a time and need no locks. In pmcd's
// process, their context ends when pmcd no longer waits for the reply. In a program, it
// ends with the program, so a function that waits for something has its own timeout. A
// function that handles many items calls
// [Request.Err] for each of them. Between instances, the agent does that itself.
package pmda
