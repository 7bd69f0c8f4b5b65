package access_test

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/gopcp/pmcd/access"
)

// These rules are those of
//
//	allow hosts ".*" : fetch, maximum 1 connections;
//	allow hosts 192.0.2.7 : all;
//
// of which the second is more specific and needs no limit. Package pmcdconf reads
// them from pmcd.conf.
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
	for i, addr := range []string{"192.0.2.7", "198.51.100.1"} {
		var conn access.Conn
		err := counter.Admit(&conn, i, access.Peer{Family: access.Inet, Addr: netip.MustParseAddr(addr)})
		if errors.Is(err, access.ErrConnLimit) {
			fmt.Println(addr, "refused:", err)
			continue
		}
		fmt.Printf("%s denied: %q\n", addr, conn.Denied())
	}
	// Output:
	// 192.0.2.7 denied: ""
	// 198.51.100.1 refused: host .*: connection limit of 1 reached
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
