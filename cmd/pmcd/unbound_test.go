package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/ctl"
	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// A socket that cannot be opened is a warning in the log, a part of the status for the
// service manager, and a problem for pmcdctl.
func TestUnboundSockets(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	port := fmt.Sprint(taken.Addr().(*net.TCPAddr).Port)
	for _, tt := range []struct {
		name  string
		args  []string
		want  string
		table bool // it has the socket, too
	}{
		{"an address of -i", []string{"-i", "fe80::1%nosuch0"}, "no client is accepted at address fe80::1%nosuch0, port ", false},
		{"a port without a numeric address", []string{"-i", "INADDR_LOOPBACK", "-p", port}, "no client is accepted at address 127.0.0.1, port " + port + ": bind: address already in use; free it ", true},
		{"the Unix domain socket", []string{"-s", "conf"}, "no client is accepted at the Unix domain socket conf: bind: address already in use; the file at this path is not a socket: remove the file or give another path (-s), and restart pmcd", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := pmcdtest.NewService(t, append([]string{"-F"}, tt.args...)...)
			m := pmcdtest.NewManager(t, s.Path("notify"))
			s.Cmd.Env = append(s.Cmd.Env, "NOTIFY_SOCKET="+s.Path("notify"))
			s.Start()
			m.Next() // starting agents
			s.OpenGate()
			if got := m.Next(); len(got) != 3 || !strings.Contains(strings.Join(got, "\n"), "\nSTATUS=serving, ") || !strings.Contains(strings.Join(got, "\n"), "; "+tt.want) {
				t.Errorf("the manager got %q", got)
			}
			log := s.Read("pmcd.log")
			if !strings.Contains(log, "\nWarning: "+tt.want) || strings.Contains(log, "  err   -1") != tt.table {
				t.Errorf("the log:\n%s", log)
			}
			socket := s.Path("sock")
			if tt.args[0] == "-s" {
				socket = s.Path(tt.args[1])
			}
			r, err := ctl.Ask(context.Background(), ctl.Path(socket))
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(r.Problems, func(p string) bool { return strings.HasPrefix(p, tt.want) }) {
				t.Errorf("problems: %q", r.Problems)
			}
		})
	}
}
