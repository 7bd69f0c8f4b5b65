package checkagents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

func TestLastLines(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"", nil},
		{"a\n\n b \r\nc", []string{"a", "b", "c"}},
		{"1\n2\n3\n4\n5\n6\n7\n", []string{"3", "4", "5", "6", "7"}},
		{long, []string{long}},
	} {
		if got := lastLines(tt.text); fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("lastLines(%q) = %q, want %q", tt.text, got, tt.want)
		}
	}
}

// check-agents removes the socket of an agent, and no file of that name.
func TestRemoveSocket(t *testing.T) {
	dir := testutil.SharedDir(t)
	file, socket := filepath.Join(dir, "file"), filepath.Join(dir, "socket")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		t.Fatal(err)
	}
	for path, kept := range map[string]bool{file: true, socket: false} {
		removeSocket(path)
		if _, err := os.Lstat(path); (err == nil) != kept {
			t.Errorf("%s: %v", path, err)
		}
	}
}
