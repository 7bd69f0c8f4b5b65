package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// childArg, as the first argument, makes this program a child of the bench: the second
// names what it does, the third has its parameters. It ends at the end of its input.
const childArg = "child"

// childKinds are what a child can be. Each is called with its parameters. It reads
// commands from lines, and replies to each with one line.
var childKinds = map[string]func(params []byte, lines *bufio.Scanner) error{
	"attack": attackMain,
	"paced":  pacedMain,
}

// childMain is the main function of a child.
func childMain(kind, params string) {
	main := childKinds[kind]
	err := fmt.Errorf("no child %q", kind)
	if main != nil {
		err = main([]byte(params), bufio.NewScanner(os.Stdin))
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %s: %v\n", kind, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// reply writes a line for the parent.
func reply(v any) error { return json.NewEncoder(os.Stdout).Encode(v) }

// A child is a process of this program.
type child struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // its replies
}

// childTimeout is how long a child may take for a reply.
const childTimeout = 90 * time.Second

// spawn starts a child. The words before are a command that becomes it, such as nice. It need not be
// able to read this program's directory: the program is descriptor 3.
func spawn(kind string, params any, before ...string) (*child, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return nil, err
	}
	defer self.Close()
	args := append(before, "/proc/self/fd/3", childArg, kind, string(text))
	c := &child{cmd: exec.Command(args[0], args[1:]...), lines: make(chan []byte, 1)}
	c.cmd.Stderr, c.cmd.ExtraFiles = os.Stderr, []*os.File{self}
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // ^C is for the parent
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.lines)
		s := bufio.NewScanner(out)
		for s.Scan() {
			c.lines <- append([]byte(nil), s.Bytes()...)
		}
	}()
	return c, nil
}

// errChild is the error of a child that has ended or takes too long.
var errChild = errors.New("a child process of the bench does not reply")

// next reads a reply.
func (c *child) next(reply any) error {
	select {
	case line, ok := <-c.lines:
		if !ok {
			return errChild
		}
		return json.Unmarshal(line, reply)
	case <-time.After(childTimeout):
		return errChild
	}
}

// ask sends a command and reads the reply.
func (c *child) ask(command string, reply any) error {
	if _, err := fmt.Fprintln(c.in, command); err != nil {
		return err
	}
	return c.next(reply)
}

// stop ends the child.
func (c *child) stop() {
	if c == nil {
		return
	}
	c.in.Close()
	t := time.AfterFunc(2*time.Second, func() { c.cmd.Process.Kill() })
	defer t.Stop()
	for range c.lines {
	}
	c.cmd.Wait()
}
