package cache

import (
	"bufio"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/internal/testutil"
)

// A peer is a process of testdata/pmdacache.c, which calls pmdaCache(3).
type peer struct {
	dir string // directory of its cache files
	in  io.Writer
	out *bufio.Reader
}

// startPeer starts a peer. If PCP is not installed, the test is skipped or, with
// PMCD_REQUIRE_PEERS=1, fails.
func startPeer(t *testing.T) *peer {
	t.Helper()
	testutil.NeedPeer(t, "/usr/include/pcp/pmda.h")
	dir := t.TempDir()
	path := filepath.Join(dir, "pmdacache")
	if out, err := exec.Command("cc", "-o", path, "testdata/pmdacache.c", "-lpcp_pmda", "-lpcp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	p := &peer{dir: filepath.Join(dir, "config", "pmda")}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), path)
	cmd.Env = append(os.Environ(), "PCP_VAR_DIR="+dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	p.in, p.out = in, bufio.NewReader(out)
	return p
}

// do sends a line and returns the reply.
func (p *peer) do(t *testing.T, line string) string {
	t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	answer, err := p.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return strings.TrimSpace(answer)
}

// hexArg returns a string argument for the peer.
func hexArg(s string) string {
	if s == "" {
		return "-"
	}
	return hex.EncodeToString([]byte(s))
}
