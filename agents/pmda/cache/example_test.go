package cache_test

import (
	"fmt"
	"os"

	"github.com/gopcp/pmcd/agents/pmda"
	"github.com/gopcp/pmcd/agents/pmda/cache"
	"github.com/gopcp/pmcd/pdu"
)

var _ pmda.Instances = (*cache.Cache)(nil)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir) // agents use the default of Options.Dir

	// The disks that an agent finds in its first run and in its second.
	for _, found := range [][]string{{"sda", "sdb"}, {"nvme0", "sdb"}} {
		disks := cache.New(pdu.NewInDom(250, 0), cache.Options{Dir: dir})
		if _, err := disks.TryLoad(); err != nil {
			fmt.Println(err)
		}
		for _, name := range found {
			if _, err := disks.Add(name, nil); err != nil {
				fmt.Println(err)
			}
		}
		if err := disks.TrySave(); err != nil {
			fmt.Println(err)
		}
		disks.Each(func(id int32, name string, _ any) bool {
			fmt.Println(id, name)
			return true
		})
	}
	// Output:
	// 0 sda
	// 1 sdb
	// 1 sdb
	// 2 nvme0
}
