package session

import (
	"fmt"
	"testing"
)

// Each host is logged once, and a limited number of hosts.
func TestViolations(t *testing.T) {
	var v violations
	for i := range maxViolations + 2 {
		isNew, full := v.add(fmt.Sprint(i))
		if isNew != (i <= maxViolations) || full != (i == maxViolations) {
			t.Fatalf("host %d: new %v, full %v", i, isNew, full)
		}
	}
}
