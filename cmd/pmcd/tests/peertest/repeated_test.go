package peertest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
	"github.com/gopcp/pmcd/internal/testutil"
)

// A client of libpcp gets the same values from both daemons if it names metrics several times in a
// request, of one agent and of two. A reply to 600 times is longer than what pmcd makes at once.
func TestRepeatedMetrics(t *testing.T) {
	peer.Require(t)
	testutil.NeedProgram(t, "cc")
	program := filepath.Join(t.TempDir(), "repeated")
	if out, err := exec.Command("cc", "-o", program, "testdata/repeated.c", "-lpcp").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, names := range []string{
		"sample.long.one sample.bin sample.string.hullo sample.double.bin_ctr sample.aggregate.hullo sample.bad.unknown",
		"sample.bin hinv.pagesize kernel.uname.release sample.ulonglong.million sample.bad.novalues",
	} {
		for _, times := range []string{"1", "2", "600"} {
			t.Run(times+" times", func(t *testing.T) {
				args := append([]string{program, "{host}", times}, words(names).Args...)
				compare(t, client(args...), peer.Comparison{Split: peer.Lines})
			})
		}
	}
}
