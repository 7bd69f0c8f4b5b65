package access_test

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/gopcp/pmcd/access"
)

// These are the rules of the following statements. Package pmcdconf reads them from
// pmcd.conf.
//
//	allow hosts ".*" : all except store, maximum 1 connections;
//	allow hosts 192.0.2.7 : all;
//
// The second rule is more specific, and has no limit.
func Example() {
	anyIPv4 := access.HostSpec{
		Family: access.Inet,
		Addr:   netip.IPv4Unspecified(),
		Mask:   netip.IPv4Unspecified(),
		Level:  4,
	}
	list, err := access.New([]access.Rule{
		{Kind: access.Host, Name: ".*", Host: anyIPv4, Specified: access.All, Denied: access.Store, Max: 1},
		{Kind: access.Host, Name: "192.0.2.7", Host: access.One(netip.MustParseAddr("192.0.2.7")), Specified: access.All},
	}, access.Env{})
	if err != nil {
		fmt.Println(err)
		return
	}

	counter := access.NewCounter(list)
	for i, addr := range []string{"198.51.100.1", "198.51.100.2", "192.0.2.7"} {
		var conn access.Conn
		err := counter.Admit(&conn, i, access.Peer{Family: access.Inet, Addr: netip.MustParseAddr(addr)})
		if errors.Is(err, access.ErrConnLimit) {
			fmt.Println(addr, "refused:", err)
			continue
		}
		fmt.Printf("%s denied: %q\n", addr, conn.Denied())
	}
	// Output:
	// 198.51.100.1 denied: "store"
	// 198.51.100.2 refused: host .*: connection limit reached (1)
	// 192.0.2.7 denied: ""
}

// Rules that contradict each other are an error.
func ExampleNew() {
	host := access.One(netip.MustParseAddr("192.0.2.7"))
	_, err := access.New([]access.Rule{
		{Kind: access.Host, Name: "web", Host: host, Specified: access.Store},
		{Kind: access.Host, Name: "192.0.2.7", Host: host, Specified: access.Store, Denied: access.Store},
	}, access.Env{})
	fmt.Println(err)
	// Output:
	// permission clash for host 192.0.2.7 with earlier statement for web
}
