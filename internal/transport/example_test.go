package transport_test

import (
	"fmt"
	"time"

	"github.com/gopcp/pmcd/internal/transport"
	"github.com/gopcp/pmcd/internal/transport/transporttest"
	"github.com/gopcp/pmcd/pdu"
)

// pmcd sends a request as a whole PDU and gets the reply as one. In tests of agents
// transporttest.Do is simpler.
func ExampleDo() {
	tr := transport.Local(&transporttest.Agent{Domain: 400})
	defer tr.Close()

	req, err := pdu.Append(nil, 0, &pdu.PMNSTraverse{Name: "ref"})
	if err != nil {
		fmt.Println(err)
		return
	}
	reply, err := transport.Do(tr, &transport.Call{Req: req, Timeout: 5 * time.Second}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, m, err := pdu.Parse(reply)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.(*pdu.PMNSNames).Names)
	// Output:
	// [ref.level ref.text ref.color.word ref.color.double ref.disk.big ref.disk.float ref.nothing]
}
