package gather

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gopcp/pmcd/pdu"
)

// A change that comes with a slow fetch does not make this scrape, nor the next ones, fail.
func TestChangesWithSlowFetch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{metrics: []fakeMetric{single(1, "a", pdu.SemInstant, int32(1))}, fetching: 5 * time.Second}
		r := newHarness(t, f)
		for i, want := range []int{1, 1, 2} {
			if i == 1 {
				f.metrics = append(f.metrics, single(2, "b", pdu.SemInstant, int32(2)))
				f.changes = pdu.StateNamesChange
			}
			ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second)
			if families, err := r.Gather(ctx); err != nil || len(families) != want {
				t.Errorf("scrape %d: %d families, %v, want %d", i, len(families), err, want)
			}
			cancel()
		}
	})
}
