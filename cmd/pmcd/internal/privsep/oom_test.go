package privsep

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/pmcdtest"
)

// Children get the value that was there before, and it is low again afterwards. To
// return to a value takes no rights, so the test raises its own first.
func TestProtectFromOOM(t *testing.T) {
	own := strings.TrimSpace(pmcdtest.Read(oomFile))
	if err := os.WriteFile(oomFile, []byte("999"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.WriteFile(oomFile, []byte(own), 0)
	around := protectFromOOM(998)
	if around == nil {
		t.Fatal("not lowered")
	}
	if got := pmcdtest.Read(oomFile); got != "998\n" {
		t.Errorf("lowered to %q", got)
	}
	around(func() {
		if out, err := exec.Command("cat", oomFile).Output(); err != nil || string(out) != "999\n" {
			t.Errorf("a child has %q, %v", out, err)
		}
	})
	if got := pmcdtest.Read(oomFile); got != "998\n" {
		t.Errorf("it is %q after a start", got)
	}
	if protectFromOOM(999) != nil || pmcdtest.Read(oomFile) != "998\n" {
		t.Error("what is lower was raised")
	}
}
