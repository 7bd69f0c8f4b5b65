package peertest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gopcp/pmcd/cmd/pmcd/internal/peer"
)

var (
	notWord     = regexp.MustCompile(`\W+`)
	sentenceEnd = regexp.MustCompile(`\.\s+|\n@ \S+ |\n\n`)
)

// sentences returns the sentences of files with help texts, newhelp(1), that have five words
// or more, without case and punctuation.
func sentences(t *testing.T, files []string) map[string]string {
	t.Helper()
	found := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for record := range strings.SplitSeq("\n"+string(text), "\n@ ") {
			_, record, _ = strings.Cut(record, " ") // the PMID
			oneLine, body, _ := strings.Cut(record, "\n")
			for _, s := range append(sentenceEnd.Split(body, -1), oneLine) {
				if s = strings.TrimSpace(notWord.ReplaceAllString(strings.ToLower(s), " ")); strings.Count(s, " ") >= 4 {
					found[s] = file
				}
			}
		}
	}
	return found
}

// No sentence of our help texts is one of PCP's, which have another licence.
func TestHelpTexts(t *testing.T) {
	peer.Require(t)
	root, err := peer.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, _ := filepath.Glob(filepath.Join(root, "agents/builtin/*/help"))
	more, _ := filepath.Glob(filepath.Join(root, "agents/builtin/*/help.txt"))
	theirs, _ := filepath.Glob("/var/lib/pcp/pmdas/*/help")
	ours, pcp := sentences(t, append(files, more...)), sentences(t, theirs)
	if len(ours) < 2000 || len(pcp) < 2000 {
		t.Fatalf("only %d sentences here and %d of PCP were found", len(ours), len(pcp))
	}
	for s, file := range ours {
		if of, same := pcp[s]; same && s != "time in seconds since 1 jan 1970" { // trivial.time
			t.Errorf("%s: %q is in %s, too", file, s, of)
		}
	}
}
