package dsohost_test

import (
	"context"
	"fmt"
	"os"

	"github.com/gopcp/pmcd/internal/launch/child"
	"github.com/gopcp/pmcd/internal/launch/dsohost"
	"github.com/gopcp/pmcd/internal/wire"
)

// This starts a host for one of PCP's shared objects and connects to it.
func ExampleSpec() {
	ctx := context.Background() // with the time that an agent may take to start
	path := "/var/lib/pcp/pmdas/sample/pmda_sample.so"
	if err := dsohost.Check(path); err != nil {
		fmt.Println(err)
		return
	}
	spec, err := dsohost.Spec(dsohost.DSO{Name: "sample", Domain: 29, Entry: "sample_init", Path: path}, os.Stderr)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := child.Start(spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer p.Stop(ctx)
	version, err := dsohost.Ready(ctx, p.Pipes)
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := wire.Dial(ctx, p.Pipes, wire.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	fmt.Println("PMDA_INTERFACE_", version)
}
