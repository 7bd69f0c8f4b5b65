package pmcd

import (
	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/pdu"
)

// pduTypes are the items of clusters 1 and 2. Items are in the order in which the
// types were added to PCP. Item 16 is the total: later types have higher items.
var pduTypes = []struct {
	item int
	name string
	typ  pdu.Type // 0 for the total
	what string   // the purpose of such a PDU, for the help text
}{
	{0, "error", pdu.TypeError, "an error code in place of a reply, the result of a store, or a notice"},
	{1, "result", pdu.TypeResult, "the values of metrics, as reply to a fetch or to be stored"},
	{2, "profile", pdu.TypeProfile, "the choice of instances for the fetches that follow"},
	{3, "fetch", pdu.TypeFetch, "a request for values"},
	{4, "desc_req", pdu.TypeDescReq, "a request for the descriptor of a metric"},
	{5, "desc", pdu.TypeDesc, "the descriptor of a metric"},
	{6, "instance_req", pdu.TypeInstanceReq, "a request for instances of an instance domain"},
	{7, "instance", pdu.TypeInstance, "instances of an instance domain"},
	{8, "text_req", pdu.TypeTextReq, "a request for help text"},
	{9, "text", pdu.TypeText, "help text"},
	{10, "control_req", pdu.TypeControlReq, "a type that is no longer in use"},
	{12, "creds", pdu.TypeCreds, "the version and the features of a peer, when a connection is set up"},
	{13, "pmns_ids", pdu.TypePMNSIDs, "PMIDs, as reply to names or to ask for their names"},
	{14, "pmns_names", pdu.TypePMNSNames, "names of metrics, as reply to PMIDs or to ask for their PMIDs"},
	{15, "pmns_child", pdu.TypePMNSChild, "a request for the names one level below a name"},
	{16, "total", 0, ""},
	{17, "pmns_traverse", pdu.TypePMNSTraverse, "a request for the names of all metrics below a name"},
	{18, "auth", pdu.TypeAttr, "an attribute of a client, or a step of its authentication"},
	{19, "label_req", pdu.TypeLabelReq, "a request for labels"},
	{20, "label", pdu.TypeLabel, "labels of the host, of an agent, or of metrics and instances"},
	{21, "highres_fetch", pdu.TypeHighResFetch, "a request for values with a time in nanoseconds"},
	{22, "highres_result", pdu.TypeHighResResult, "the values of metrics with a time in nanoseconds"},
	{23, "desc_ids", pdu.TypeDescIDs, "a request for the descriptors of several metrics"},
	{24, "descs", pdu.TypeDescs, "the descriptors of several metrics"},
}

// pduMetrics returns the metrics of one direction.
func pduMetrics(prefix string, n func(*pdu.Counts, pdu.Type) uint32) []metric {
	var rows []metric
	for _, t := range pduTypes {
		get := func(f *fetch) uint32 { return n(f.status().PDUs, t.typ) }
		rows = append(rows, metric{t.item, prefix + t.name, u32, 0, counter, count, word(get), nil})
	}
	return rows
}

func received(c *pdu.Counts, t pdu.Type) uint32 { return total(c, (*pdu.Counts).Received, t) }

func sent(c *pdu.Counts, t pdu.Type) uint32 { return total(c, (*pdu.Counts).Sent, t) }

// total returns the count of PDUs of one type, or of all types if t is 0.
func total(c *pdu.Counts, n func(*pdu.Counts, pdu.Type) uint32, t pdu.Type) uint32 {
	if c == nil {
		return 0
	}
	if t != 0 {
		return n(c, t)
	}
	var sum uint32
	for t := pdu.TypeError; t <= pdu.TypeDescs; t++ {
		sum += n(c, t)
	}
	return sum
}

// addPDUHelp adds the help texts of clusters 1 and 2 to help.
func addPDUHelp(help map[string]pmda.HelpText) {
	for _, t := range pduTypes {
		short, what := t.typ.String()+" PDUs", "\n"+t.typ.String()+": "+t.what+"."
		if t.typ == 0 {
			short, what = "PDUs of all types", ""
		}
		help["pmcd.pdu_in."+t.name] = pmda.HelpText{
			OneLine: short + " that pmcd has received",
			Text: "The number received since pmcd was started, on connections to clients and\n" +
				"to agents alike." + what,
		}
		help["pmcd.pdu_out."+t.name] = pmda.HelpText{
			OneLine: short + " that pmcd has sent",
			Text: "The number sent since pmcd was started, on connections to clients and to\n" +
				"agents alike." + what,
		}
	}
}
