package logging

import (
	"fmt"
	"strings"
	"testing"
)

// What a log that cannot be opened leads to is said, with the reason.
func TestLogThatCannotBeOpened(t *testing.T) {
	dir := t.TempDir()
	for path, why := range map[string]string{
		dir + "/nosuch/pmcd.log": "no such file or directory",
		dir:                      "neither a file nor a FIFO nor a device for characters",
	} {
		var stderr strings.Builder
		l := Open(path, "text", true, &stderr)
		want := fmt.Sprintf("cannot open log %q for writing : %s; messages go to the standard error output; fix that and restart pmcd", path, why)
		if l.Opened || l.Err == nil || l.Err.Error() != want || stderr.String() != "pmcd: "+want+"\n" {
			t.Errorf("got %v and %s\nwant %s", l.Err, &stderr, want)
		}
	}
}
