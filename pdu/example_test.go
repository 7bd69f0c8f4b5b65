package pdu_test

import (
	"fmt"

	"github.com/gopcp/pmcd/pdu"
)

// An agent answers a Fetch.
func ExampleResultWriter() {
	var w pdu.ResultWriter
	w.Reset(nil, 0)
	w.Begin(pdu.NewPMID(60, 0, 1)) // without instances
	w.Word(pdu.NoInst, 42)
	w.Begin(pdu.NewPMID(60, 0, 2))
	w.Uint64(0, pdu.MetricU64, 1<<40)
	w.Uint64(1, pdu.MetricU64, 7)
	w.Fail(pdu.NewPMID(60, 0, 3), pdu.ErrnoPMID)
	b, err := w.Finish()
	if err != nil {
		fmt.Println(err)
		return
	}

	_, m, err := pdu.Parse(b)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, vs := range m.(*pdu.Result).Sets {
		fmt.Println(vs.PMID, len(vs.Values), vs.Err)
	}
	// Output:
	// 60.0.1 1 no error
	// 60.0.2 2 no error
	// 60.0.3 0 no metric of that identifier
}
