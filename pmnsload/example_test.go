package pmnsload_test

import (
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/pmnsload"
)

const pmns = `
root {
	disk
	sample	29:*:*
}
disk {
	read	60:0:1
	write	60:0:2
}
`

func ExampleParse() {
	tree, err := pmnsload.Parse("pmns", strings.NewReader(pmns), pmnsload.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for e := range tree.All("") {
		fmt.Println(e.Kind, e.Name, e.PMID)
	}
	id, kind := tree.PMID("disk.write")
	fmt.Println(id, kind)
	fmt.Println(tree.Names(id))
	fmt.Println(tree.Find("sample.bin").Kind) // only the agent knows whether it exists
	// Output:
	// Leaf disk.read 60.0.1
	// Leaf disk.write 60.0.2
	// Dynamic sample 511.29.0
	// 60.0.2 Leaf
	// [disk.write]
	// Dynamic
}

// A mistake is reported with the line and a caret below the position.
func ExampleErrorList_Detail() {
	_, err := pmnsload.Parse("pmns", strings.NewReader("root {\n    disk 60:5000:1\n}\n"), pmnsload.Options{})
	fmt.Println(err)
	fmt.Println(err.(pmnsload.ErrorList).Detail())
	// Output:
	// pmns:2:10: Illegal cluster field in PMID
	// [pmns:2] Error Parsing ASCII PMNS: Illegal cluster field in PMID
	//     disk 60:5000:1
	//          ^
}
