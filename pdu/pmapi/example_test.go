package pmapi_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/gopcp/pmcd/pdu"
	"github.com/gopcp/pmcd/pdu/pmapi"
)

func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := pmapi.Dial(ctx, "local:", pmapi.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// The load average, with the names of its instances.
	ids, err := c.Lookup(ctx, "kernel.all.load")
	if err != nil {
		log.Fatal(err)
	}
	desc, err := c.Desc(ctx, ids[0])
	if err != nil {
		log.Fatal(err)
	}
	var r pmapi.Result
	if err := c.Fetch(ctx, ids, &r); err != nil {
		log.Fatal(err)
	}
	set := &r.Sets[0]
	if set.Err < 0 {
		log.Fatal(set.Err)
	}
	for _, v := range set.Values {
		name, err := c.InstanceName(ctx, desc.InDom, v.Inst)
		if err != nil {
			log.Fatal(err)
		}
		value, err := pmapi.Decode(set, v, desc.ValueType)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(name, value)
	}
}

// A program prints some metrics each second, whatever happens to pmcd.
func ExampleGroup() {
	ctx := context.Background()
	c, err := pmapi.Dial(ctx, "pcps://db1.example.com?container=web", pmapi.Options{
		Timeout:   10 * time.Second,
		Reconnect: &pmapi.Backoff{},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	g := c.NewGroup()
	var load float64
	var reads []pmapi.Instance[float64]
	loadItem := pmapi.Bind(g, &load, "kernel.all.load", pmapi.ItemOptions{Instance: "1 minute"})
	readsItem := pmapi.BindAll(g, &reads, "disk.dev.read", pmapi.ItemOptions{}) // a counter: reads a second

	for range time.Tick(time.Second) {
		at, err := g.Fetch(ctx)
		if err != nil {
			log.Print(err)
			continue
		}
		if err := errors.Join(loadItem.Err(), readsItem.Err()); err != nil {
			log.Print(err)
		}
		fmt.Println(at, "load", load)
		for _, disk := range reads {
			if disk.Err == nil {
				fmt.Printf("%s: %.1f reads/s\n", disk.Name, disk.Value)
			}
		}
	}
}

// A lookup of several names says which of them do not exist.
func ExampleClient_Lookup() {
	ctx := context.Background()
	c, err := pmapi.Dial(ctx, "db1.example.com", pmapi.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	names := []string{"kernel.all.load", "kernel.all.lod"}
	ids, err := c.Lookup(ctx, names...)
	var some *pmapi.ItemsError
	switch {
	case errors.As(err, &some):
		for i, err := range some.Errs {
			if err != nil {
				fmt.Println(names[i], "does not exist:", errors.Is(err, pdu.ErrnoName))
			}
		}
	case err != nil:
		log.Fatal(err)
	}
	fmt.Println(ids)
}

func ExampleClient_SetProfile() {
	var c *pmapi.Client // from Dial
	// Fetches return only instances 1 and 15 of the load average, and no instances of other
	// domains.
	c.SetProfile(&pdu.Profile{
		Exclude: true,
		InDoms:  []pdu.InDomProfile{{InDom: pdu.NewInDom(60, 2), Exclude: true, Insts: []int32{1, 15}}},
	})
}

func ExampleClient_Store() {
	ctx := context.Background()
	c, err := pmapi.Dial(ctx, "unix:", pmapi.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ids, err := c.Lookup(ctx, "pmcd.control.timeout")
	if err != nil {
		log.Fatal(err)
	}
	if err := c.Store(ctx, pmapi.NewValueSet(ids[0], pdu.NoInst, pmapi.ValueOf(uint32(10)))); errors.Is(err, pdu.ErrnoPermission) {
		fmt.Println("only root may do that")
	}
}

func ExampleParseSpec() {
	s, err := pmapi.ParseSpec("pcps://db1.example.com:44321@proxy?container=web&user=tanya&pass=secret")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Host, s.Ports, s.Proxy, s.Container, s.User)
	fmt.Println(s) // without the password
	// Output:
	// db1.example.com [44321] proxy web tanya
	// pcps://db1.example.com:44321@proxy?container=web&user=tanya
}

func ExampleConvert() {
	mb, err := pmapi.Convert(6291456, pdu.Byte, pdu.Mbyte)
	fmt.Println(mb, err)
	_, err = pmapi.Convert(1, pdu.Byte, pdu.Sec)
	fmt.Println(err)
	// Output:
	// 6 <nil>
	// byte in sec: value cannot be converted
}

func ExampleRate() {
	before, after := pmapi.ValueOf(uint64(1000)), pmapi.ValueOf(uint64(3000))
	rate, err := pmapi.Rate(before, after, 4*time.Second, false)
	fmt.Println(rate, err)
	// Output: 500 <nil>
}
