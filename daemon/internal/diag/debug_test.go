package diag

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/pmcdconf/debugopt"
)

// docs/logging.md has each option of PCP, above or below the line about options without
// effect.
func TestDebugOptionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile(filepath.FromSlash("../../../docs/logging.md"))
	if err != nil {
		t.Fatal(err)
	}
	some, none, ok := strings.Cut(string(text), "They have no effect:")
	all, err := debugopt.Parse("all")
	if err != nil || !ok {
		t.Fatal(err, ok)
	}
	for _, name := range all {
		where := none
		if DebugOptions(name) != 0 {
			where = some
		}
		if !strings.Contains(where, "`"+name+"`") {
			t.Errorf("%s is not where it should be", name)
		}
	}
}
