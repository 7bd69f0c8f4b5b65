package goplugin_test

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gopcp/pmcd/internal/launch/goplugin"
)

// The loader looks up these names in a plugin, in this order.
func ExampleSymbols() {
	fmt.Println(strings.Join(goplugin.Symbols("simple_init"), ", "))
	// Output:
	// SimpleInit, NewAgent
}

// A file of a dso line that is not a Go plugin may be a PMDA written in C.
func ExampleLoader() {
	var loader goplugin.Loader
	a, err := loader.Open(context.Background(), "/usr/local/lib/pcp/plugins/pmda_simple.so", "simple_init", 253)
	switch {
	case errors.Is(err, goplugin.ErrNotPlugin):
		fmt.Println("a shared object for package dsohost:", err)
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Printf("%T is an agents.Agent\n", a)
	}
}
