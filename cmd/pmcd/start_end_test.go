package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
	"github.com/gopcp/pmcd/internal/testutil"
)

// SIGTERM ends pmcd while it reads its files for the first time, and a command does not end.
func TestEndOfStart(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
	}{
		{"in the foreground", []string{"-f"}},
		{"root in daemon mode", []string{"-F", "-U", "root"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.args[0] == "-F" {
				testutil.NeedRoot(t) // -U root is for root
			}
			p := pmcdtest.NewPlace(t, pmcdtest.Self(t))
			p.Write("pmns", "#shell 'cat endless'\nroot { pmcd }\npmcd { numclients 2:0:3 }\n")
			if err := syscall.Mkfifo(p.At("endless"), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := p.Command(tt.args...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			read, err := os.OpenFile(p.At("endless"), os.O_WRONLY, 0) // waits for the reader
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			cmd.Process.Signal(syscall.SIGTERM)
			select {
			case err = <-ended:
			case <-time.After(testutil.Hangs):
				err = errors.New("pmcd does not end")
				cmd.Process.Kill()
				<-ended
			}
			log := pmcdtest.Read(p.At("log/pmcd.log"))
			if !strings.Contains(log, "pmcd caught SIGTERM ") || !strings.Contains(log, "pmcd Shutdown") || strings.Contains(log, "not started") {
				err = errors.Join(err, errors.New("the log has not the expected lines"))
			}
			if err != nil {
				t.Errorf("%v\n%s", err, log)
			}
		})
	}
}

// The end of pmcd has a limit, whatever it waits for. There is none before the end.
func TestLimitEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		late := make(chan time.Time, 1)
		limitEnd(ctx, func() { late <- time.Now() })
		time.Sleep(time.Hour)
		select {
		case <-late:
			t.Fatal("pmcd exits, and should not end")
		default:
		}
		end()
		began := time.Now()
		if took := (<-late).Sub(began); took != endLimit {
			t.Errorf("it exits after %v, want %v", took, endLimit)
		}
	})
}
