package trace_test

import (
	"context"
	"errors"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/gopcp/pmcd/agents/trace"
)

// A web server counts requests and measures their time. It does not wait for the agent, and
// works without one.
func Example() {
	client := trace.New(trace.Options{Async: true})
	defer client.Close()

	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		t := client.Begin("request")
		defer t.End(r.Context())
		w.Write([]byte("hello\n"))
	})
	log.Fatal(http.ListenAndServe("localhost:8080", nil))
}

// A transaction that fails does not count.
func ExampleClient_Begin() {
	client := trace.New(trace.Options{})
	defer client.Close()

	t := client.Begin("read passwd")
	defer t.Abort() // has no effect after End
	if _, err := os.ReadFile("/etc/passwd"); err != nil {
		return
	}
	t.End(context.Background())
}

// A synchronous call reports whether the agent has the value.
func ExampleClient_Observe() {
	client := trace.New(trace.Options{ConnectTimeout: time.Second})
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := client.Observe(ctx, "queue length", 17)
	switch {
	case errors.Is(err, trace.ErrPermission):
		log.Print("pmdatrace needs an option -A for this host")
	case errors.Is(err, trace.ErrIPC):
		log.Print("no agent: ", err)
	case err != nil:
		log.Print(err)
	}
}

// Options come from the environment where they are not set. FromEnv reports mistakes in it.
func ExampleFromEnv() {
	o, err := trace.FromEnv()
	if err != nil {
		log.Print(err)
	}
	o.Async = true
	client := trace.New(o)
	defer client.Close()

	client.Counter(context.Background(), "bytes read", 4096)
	client.Point(context.Background(), "end of main")
}
