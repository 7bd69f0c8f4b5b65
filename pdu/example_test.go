package pdu_test

import (
	"bytes"
	"fmt"
	"io"

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

// A client reads replies from a stream.
func ExampleReader() {
	var stream bytes.Buffer // a connection to pmcd
	for _, m := range []pdu.Message{
		&pdu.Error{Code: pdu.ErrnoPMID},
		&pdu.Desc{PMID: pdu.NewPMID(60, 0, 1), ValueType: pdu.MetricU64, InDom: pdu.NoInDom, Sem: pdu.SemCounter, Units: pdu.Kbyte},
	} {
		b, err := pdu.Append(nil, 0, m)
		if err != nil {
			fmt.Println(err)
			return
		}
		stream.Write(b)
	}

	r := pdu.NewReader(&stream, 0)
	for {
		b, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		_, m, err := pdu.Parse(b)
		if err != nil {
			fmt.Println(err)
			return
		}
		switch m := m.(type) {
		case *pdu.Error:
			fmt.Println(m.Type(), m.Code.Name())
		case *pdu.Desc:
			fmt.Println(m.Type(), m.PMID, m.ValueType, m.Sem, m.Units)
		}
	}
	// Output:
	// ERROR PM_ERR_PMID
	// DESC 60.0.1 U64 counter Kbyte
}

func ExampleAppendDump() {
	b, err := pdu.Append(nil, 7, &pdu.DescReq{PMID: pdu.NewPMID(60, 0, 1)})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s", pdu.AppendDump(nil, b))
	// Output:
	// DESC_REQ len=16 from=7
	// 000: 00000010 00007004 00000007 0f000001
}
