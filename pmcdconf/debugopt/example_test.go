package debugopt_test

import (
	"fmt"

	"github.com/gopcp/pmcd/pmcdconf/debugopt"
)

func ExampleParse() {
	fmt.Println(debugopt.Parse("PDU,fetch,pdu"))
	fmt.Println(debugopt.Parse("everything"))
	// Output:
	// [fetch pdu] <nil>
	// [] unknown debug option
}
