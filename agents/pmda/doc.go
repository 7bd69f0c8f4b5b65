// Package pmda builds agents from tables: it is what an author of a PMDA needs,
// as libpcp_pmda (PMDA(3)) is in C.
//
// An agent is a table of metrics, each with a function that sets its value:
//
//	func NewAgent(domain int) (agents.Agent, error) {
//		start := time.Now()
//		return pmda.New(pmda.Config{
//			Name:   "uptime",
//			Domain: domain,
//			Metrics: []pmda.Metric{{
//				Cluster: 0, Item: 0, Name: "uptime.seconds",
//				Type: pdu.MetricDouble, Sem: pdu.SemCounter, Units: pdu.NewUnits(0, 1, 0, 0, pdu.TimeSec, 0),
//				OneLine: "time since the agent was started",
//				Fetch: func(_ context.Context, v *pmda.Value) error {
//					v.SetFloat(time.Since(start).Seconds())
//					return nil
//				},
//			}},
//		})
//	}
//
// What New returns is an [agents.Agent]. It is compiled into pmcd, or into a Go
// plugin (docs/plugins.md), or with package agents/serve into a program that any
// pmcd starts, C's included. Clients look names up in the PMNS of the host; for
// the metric above that is
//
//	uptime { seconds DOMAIN:0:0 }
//
// with the number of the domain.
//
// # Instances
//
// A metric with several values has an instance domain, an [InDom], whose
// [Instances] are a [List], which the agent may change from one request to the
// next, or a cache.Cache, which gives each name a number of its own and keeps
// it on disk. The function of a metric is called for each instance that the
// client wants.
//
// # Sources
//
// Metrics mostly come in groups: one file, one query, many values. What is read
// for a group is a [Source], which is read once in a request, and only if one
// of its metrics or instance domains is asked for:
//
//	stat := &pmda.Source{Read: readStat}
//	cpus := &pmda.InDom{Serial: 0, Insts: &cpuList, Source: stat}
//
// # Errors
//
// The error of a function reaches the client as the code that [pdu.ErrnoOf]
// finds in it: a pdu.Errno, or that of a system call. Other errors have no
// code: the client sees PM_ERR_GENERIC and the text is logged, as are those that
// no client sees: of the labels of instances and of Subtrees. What the author
// leaves out is answered as libpcp_pmda does: a store is PM_ERR_PERMISSION, a
// text that is not there PM_ERR_TEXT, a metric without a function has no value.
//
// # Calls
//
// All functions of an agent are called one at a time; they need no locks. The
// context that they get ends when nobody waits for the answer any more: a
// function that waits for something should end then.
package pmda
