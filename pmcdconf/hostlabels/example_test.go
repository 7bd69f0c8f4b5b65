package hostlabels_test

import (
	"fmt"

	"github.com/gopcp/pmcd/pmcdconf/hostlabels"
)

func ExampleParse() {
	labels, err := hostlabels.Parse([]byte(`{"site": "north", "rack": {"row": 4}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, l := range labels {
		fmt.Printf("%s=%s\n", l.Name, l.Value)
	}
	// Output:
	// rack.row=4
	// site="north"
}
