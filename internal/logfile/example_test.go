package logfile_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/gopcp/pmcd/internal/logfile"
)

// The log of the last run gets the suffix .prev.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "simple.log")

	for run := 1; run <= 2; run++ {
		f, err := logfile.Open(path)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Fprint(f, logfile.Header("pmdasimple"))
		fmt.Fprintln(f, "run", run)
		fmt.Fprint(f, logfile.Trailer())
		f.Close()
	}
	names, err := filepath.Glob(path + "*")
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range names {
		fmt.Println(filepath.Base(name))
	}
	// Output:
	// simple.log
	// simple.log.prev
}
