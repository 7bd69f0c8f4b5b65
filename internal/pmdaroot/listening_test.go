package pmdaroot_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gopcp/pmcd/internal/pmdaroot"
	"github.com/gopcp/pmcd/internal/testutil"
)

// The socket is found in a directory that only root may search.
func TestListening(t *testing.T) {
	if path := os.Getenv("PMCD_TEST_LISTENING"); path != "" {
		fmt.Println("there:", pmdaroot.Listening(path))
		return
	}
	dir := testutil.SharedDir(t)
	path := filepath.Join(dir, "hidden", "root.socket")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(filepath.Dir(path), 0o700) }) // so that it can be removed
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	look := func(path string) string {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestListening$")
		cmd.Env = append(os.Environ(), "PMCD_TEST_LISTENING="+path)
		if os.Geteuid() == 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		} else if err := os.Chmod(filepath.Dir(path), 0); err != nil {
			t.Fatal(err)
		}
		out, err := cmd.CombinedOutput()
		if testutil.Forbidden(err) {
			testutil.Missing(t, err)
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		line, _, _ := strings.Cut(string(out), "\n")
		return line
	}
	if got := look(path); got != "there: true" {
		t.Errorf("a socket: %s", got)
	}
	if got := look(path[:len(path)-1]); got != "there: false" {
		t.Errorf("none: %s", got)
	}
	l.Close()
	if got := look(path); got != "there: false" {
		t.Errorf("after its end: %s", got)
	}
}

// A file that is not a socket does not listen.
func TestListeningToAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "root.socket")
	if pmdaroot.Listening(path) {
		t.Error("there is no file")
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if pmdaroot.Listening(path) {
		t.Error("the file is no socket")
	}
}
