package main

import (
	"context"
	"io"
	"log"
	"os"

	"github.com/gopcp/pmcd/agents/wire"

	"example.com/myapp"
)

type stdio struct {
	io.Reader
	io.WriteCloser
}

func main() {
	a, err := myapp.New(400)
	if err != nil {
		log.Fatal(err)
	}
	wire.Serve(context.Background(), a, stdio{os.Stdin, os.Stdout})
}
