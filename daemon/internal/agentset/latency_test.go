package agentset

import (
	"testing"
	"time"
)

// The times of requests: the mean follows the last ones, the maximum is
// forgotten after a minute, or two.
func TestLatency(t *testing.T) {
	var l latencyStats
	now := time.Now()
	check := func(when string, after time.Duration, requests uint64, mean, most time.Duration) {
		t.Helper()
		var st Status
		l.report(&st, now.Add(after))
		if st.Requests != requests || (st.Mean-mean).Abs() > 10*time.Microsecond || st.Max != most {
			t.Errorf("%s: %d requests, mean %v, max %v, want %d, %v, %v", when, st.Requests, st.Mean, st.Max, requests, mean, most)
		}
	}
	serve := func(at, took time.Duration) { l.answered(now.Add(at-took), now.Add(at-took), now.Add(at)) }
	check("none", 0, 0, 0, 0)
	serve(time.Second, 32*time.Millisecond)
	check("the first", 2*time.Second, 1, 32*time.Millisecond, 32*time.Millisecond)
	serve(3*time.Second, 16*time.Millisecond)
	check("a shorter one", 4*time.Second, 2, 31*time.Millisecond, 32*time.Millisecond)
	for range 100 {
		serve(5*time.Second, time.Millisecond)
	}
	check("many short ones", 6*time.Second, 102, time.Millisecond+50*time.Microsecond, 32*time.Millisecond)
	serve(70*time.Second, 2*time.Millisecond)
	check("the minute after", 71*time.Second, 103, time.Millisecond+110*time.Microsecond, 32*time.Millisecond)
	check("two minutes after", 125*time.Second, 103, time.Millisecond+110*time.Microsecond, 2*time.Millisecond)
	check("an hour after", time.Hour, 103, time.Millisecond+110*time.Microsecond, 0)
}

// The usual time follows answers that were waited for, or came in no more than that.
func TestLatencyTypical(t *testing.T) {
	now := time.Now()
	tests := []struct {
		name         string
		asked, took  time.Duration // since the request
		before, then time.Duration
	}{
		{"waited for", 0, 32, 16, 17},
		{"waited for last", 16, 32, 16, 17},
		{"was there", 31, 32, 16, 16},
		{"was there in less", 31, 32, 48, 47},
		{"received by another", 33, 32, 16, 17},
	}
	for _, tt := range tests {
		l := latencyStats{requests: 1, mean: tt.before * time.Millisecond}
		l.answered(now, now.Add(tt.asked*time.Millisecond), now.Add(tt.took*time.Millisecond))
		if got := l.typical(); got != tt.then*time.Millisecond {
			t.Errorf("%s: %v, want %v ms", tt.name, got, int64(tt.then))
		}
	}
}
