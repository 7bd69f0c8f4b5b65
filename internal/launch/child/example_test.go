package child_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gopcp/pmcd/internal/launch/child"
)

func ExampleStart() {
	log, err := child.NewStderr(os.Stderr)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, err := child.Start(child.Spec{
		Argv:   []string{"sh", "-c", "read x; echo got $x; exit 3"},
		Pipes:  true,
		Stderr: log.File(),
	})
	log.Started()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Fprintln(p.Pipes, "a request")
	line, err := bufio.NewReader(p.Pipes).ReadString('\n')
	fmt.Printf("%q %v\n", line, err)
	<-p.Done()
	fmt.Println(p.Status().ExitStatus())

	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	p.Stop(ctx) // reaps the child
	log.Close()
	// Output:
	// "got a request\n" <nil>
	// 3
}
