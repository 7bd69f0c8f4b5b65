package metrics_test

import (
	"math"
	"testing"

	"github.com/gopcp/pmcd/agents/builtin/internal/metrics"
)

func TestScale(t *testing.T) {
	for _, tt := range []struct{ n, mul, div, want uint64 }{
		{10, 4096, 1024, 40},
		{7, 10, 4, 17},
		{1 << 60, 4096, 1024, 1 << 62},
		{math.MaxUint64, 1024, 1024, math.MaxUint64},
		{1 << 62, 4096, 1024, math.MaxUint64},
		{0, 0, 1, 0},
	} {
		if got := metrics.Scale(tt.n, tt.mul, tt.div); got != tt.want {
			t.Errorf("%d * %d / %d: got %d, want %d", tt.n, tt.mul, tt.div, got, tt.want)
		}
	}
}
