package main

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A directory of ids that cannot be written is a problem as long as it is so, and one line of the log.
func TestIDFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errno atomic.Uintptr
		var log bytes.Buffer
		changes := 0
		f := &idFiles{dir: "/x", log: slog.New(slog.NewTextHandler(&log, nil)), changed: func() { changes++ }, access: func(string, uint32) error {
			if n := syscall.Errno(errno.Load()); n != 0 {
				return n
			}
			return nil
		}}
		for i, tt := range []struct {
			errno   syscall.Errno
			want    string
			changes int
		}{
			{0, "", 0},
			{syscall.EROFS, "/x cannot be written: read-only file system", 1},
			{syscall.EACCES, "/x cannot be written: permission denied", 1},
			{syscall.ENOENT, "", 2},
		} {
			errno.Store(uintptr(tt.errno))
			time.Sleep(idCheckInterval)
			f.Problems()
			synctest.Wait()
			got := strings.Join(f.Problems(), "\n")
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" || changes != tt.changes {
				t.Errorf("%d: %q, want %q; %d changes, want %d", i, got, tt.want, changes, tt.changes)
			}
		}
		if n := strings.Count(log.String(), "ids of instances are not saved"); n != 1 {
			t.Errorf("%d lines:\n%s", n, log.String())
		}
	})
	if got := (*idFiles)(nil).Problems(); got != nil {
		t.Errorf("without PCP's directories: %q", got)
	}
	t.Setenv("PCP_VAR_DIR", "/vars")
	if got := newIDFiles(nil).dir; got != "/vars/config/pmda" {
		t.Errorf("the directory is %s", got)
	}
}
