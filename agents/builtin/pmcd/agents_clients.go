package pmcd

import (
	"cmp"
	"slices"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// agentMetrics is cluster 4.
var agentMetrics = []metric{
	{0, "pmcd.agent.type", u32, indomAgents, discrete, none, eachAgent(func(w *pdu.ResultWriter, inst int32, v *AgentInfo) {
		w.Word(inst, uint32(v.Kind))
	}), nil},
	{1, "pmcd.agent.status", i32, indomAgents, discrete, none, eachAgent(func(w *pdu.ResultWriter, inst int32, v *AgentInfo) {
		w.Word(inst, uint32(v.Status))
	}), nil},
	{itemFenced, "pmcd.agent.fenced", u32, indomAgents, instant, none, eachAgent(func(w *pdu.ResultWriter, inst int32, v *AgentInfo) {
		w.Word(inst, boolWord(v.Fenced))
	}), storeFenced},
	{3, "pmcd.agent.name", str, indomAgents, discrete, none, eachAgent(func(w *pdu.ResultWriter, inst int32, v *AgentInfo) {
		w.String(inst, v.Name)
	}), nil},
}

const (
	clusterAgents = 4
	itemFenced    = 2
)

// clientMetrics is cluster 6.
var clientMetrics = []metric{
	{0, "pmcd.client.whoami", str, indomClients, discrete, none, eachClient(func(w *pdu.ResultWriter, inst int32, v *ClientInfo) {
		w.String(inst, v.Whoami)
	}), storeWhoami},
	{1, "pmcd.client.start_date", str, indomClients, discrete, none, startDates, nil},
	{2, "pmcd.client.container", str, indomClients, instant, none, eachClient(func(w *pdu.ResultWriter, inst int32, v *ClientInfo) {
		w.String(inst, v.Container)
	}), storeContainer},
}

// featureMetrics is cluster 8.
var featureMetrics = []metric{
	feature(0, "pmcd.feature.secure", func(v *Features) bool { return v.Secure }),
	feature(1, "pmcd.feature.compress", func(v *Features) bool { return v.Compress }),
	feature(2, "pmcd.feature.ipv6", func(v *Features) bool { return v.IPv6 }),
	feature(3, "pmcd.feature.authentication", func(v *Features) bool { return v.Authentication }),
	feature(4, "pmcd.feature.creds_required", func(v *Features) bool { return v.CredsRequired }),
	feature(5, "pmcd.feature.unix_domain_sockets", func(v *Features) bool { return v.UnixDomainSockets }),
	feature(6, "pmcd.feature.service_discovery", func(v *Features) bool { return v.ServiceDiscovery }),
	feature(7, "pmcd.feature.containers", func(v *Features) bool { return v.Containers }),
	feature(8, "pmcd.feature.local", func(v *Features) bool { return v.Local }),
	feature(9, "pmcd.feature.client_cert_required", func(v *Features) bool { return v.ClientCertRequired }),
}

func feature(item int, name string, has func(*Features) bool) metric {
	get := func(f *fetch) uint32 { return boolWord(has(&f.status().Features)) }
	return metric{item, name, u32, 0, instant, none, word(get), nil}
}

func eachAgent(put func(*pdu.ResultWriter, int32, *AgentInfo)) fetchFunc {
	return each((*fetch).agents, func(v *AgentInfo) int32 { return int32(v.Domain) }, put)
}

// agents returns the agents in the order of their domains. Instances has them in
// the order of pmcd.conf.
func (f *fetch) agents() []AgentInfo {
	if markFetched(&f.fetched.agents) {
		if p, some := f.requested(indomAgents); some {
			f.agentsNow = f.a.host.Agents(f.agentsNow[:0])
			f.agentsNow = slices.DeleteFunc(f.agentsNow, func(v AgentInfo) bool { return !p.Includes(int32(v.Domain)) })
			slices.SortFunc(f.agentsNow, func(a, b AgentInfo) int { return cmp.Compare(a.Domain, b.Domain) })
		}
	}
	return f.agentsNow
}

func eachClient(put func(*pdu.ResultWriter, int32, *ClientInfo)) fetchFunc {
	return each((*fetch).clients, func(v *ClientInfo) int32 { return v.Seq }, put)
}

func (f *fetch) clients() []ClientInfo {
	if markFetched(&f.fetched.clients) {
		if p, some := f.requested(indomClients); some {
			f.clientsNow, f.err = f.a.host.Clients(f.ctx, f.clientsNow[:0], p)
		}
	}
	return f.clientsNow
}

// startDates appends the time at which each client connected, in the format of
// ctime(3).
func startDates(f *fetch) {
	loc := f.location()
	var buf [len(time.ANSIC)]byte
	eachClient(func(w *pdu.ResultWriter, inst int32, v *ClientInfo) {
		w.String(inst, string(v.Started.In(loc).AppendFormat(buf[:0], time.ANSIC)))
	})(f)
}
