package mmv_test

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"

	"github.com/gopcp/pmcd/agents/mmv"
	"github.com/gopcp/pmcd/pdu"
)

// A server counts its requests.
func Example() {
	metrics := mmv.Must(mmv.New(mmv.Config{Name: "shop", Dir: os.TempDir()})) // most programs need no Dir
	requests := mmv.Must(metrics.Counter(mmv.Metric{Name: "requests", OneLine: "HTTP requests", Units: pdu.Count}))
	if err := metrics.Publish(); err != nil {
		log.Print(err) // the program works without metrics
	}
	defer metrics.Close()

	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Inc() }))
	defer server.Close()
	for range 3 {
		resp, err := http.Get(server.URL)
		if err != nil {
			log.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
	fmt.Println("mmv.shop.requests", requests.Value())
	// Output: mmv.shop.requests 3
}

// Metrics may be variables of a package. They work although nothing is published.
var (
	metrics = mmv.Must(mmv.New(mmv.Config{Name: "queue"}))
	length  = mmv.Must(metrics.Gauge(mmv.Metric{Name: "length", OneLine: "Items in the queue", Units: pdu.Count}))
	state   = mmv.Must(metrics.String(mmv.Metric{Name: "state", OneLine: "State of the queue", Sem: pdu.SemDiscrete}))
)

func Example_variables() {
	length.Inc()
	state.Set("open")
	fmt.Println(length.Value(), state.Value())
	// Output: 1 open
}

// A metric with a value for each disk.
func ExampleRegistry_Instances() {
	metrics := mmv.Must(mmv.New(mmv.Config{Name: "backup", Dir: os.TempDir(), Cluster: 200}))
	disks, err := metrics.Instances(mmv.InDom{
		Serial: 1, OneLine: "Disks", Names: []string{"sda", "sdb"},
		InstLabels: func(name string) mmv.Labels { return mmv.Labels{"device": "/dev/" + name} },
	})
	if err != nil {
		log.Fatal(err)
	}
	read := mmv.Must(disks.Counter(mmv.Metric{Name: "read", OneLine: "Bytes read", Units: pdu.Byte}))
	if err := metrics.Publish(); err != nil {
		log.Print(err)
	}
	defer metrics.Close()

	read.At("sda").Add(4096)
	if err := disks.Add("sdc"); err != nil { // a disk that was plugged in
		log.Print(err)
	}
	read.At("sdc").Add(512)
	read.At("sdd").Add(1) // not a disk: ignored
	for _, name := range disks.Names() {
		fmt.Println(name, read.At(name).Value())
	}
	// Output:
	// sda 4096
	// sdb 0
	// sdc 512
}

// What cannot be in a file is an error.
func ExampleRegistry_Counter() {
	metrics := mmv.Must(mmv.New(mmv.Config{Name: "shop", Dir: os.TempDir()}))
	_, err := metrics.Counter(mmv.Metric{Name: "http-requests"})
	fmt.Println(err)
	lost, err := metrics.Counter(mmv.Metric{Name: "lost", Item: 1024})
	fmt.Println(err)
	lost.Inc() // ignored
	// Output:
	// mmv: metric http-requests: a name is a letter followed by letters, digits and underscores, or several of these with dots between them
	// mmv: metric lost: item 1024 is not in the range of 1 to 1023
}

// The time that is spent in an activity increases while the activity is under way.
func ExampleElapsed() {
	metrics := mmv.Must(mmv.New(mmv.Config{Name: "indexer", Dir: os.TempDir()}))
	busy := mmv.Must(metrics.Elapsed(mmv.Metric{Name: "busy", OneLine: "Time spent building the index"}))
	build := func() {
		busy.Start()
		defer busy.Stop()
		// ...
	}
	build()
	fmt.Println(busy.Value() > 0)
	// Output: true
}
