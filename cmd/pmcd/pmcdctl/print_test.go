package main

import (
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "<1s", 0: "<1s", 999 * time.Millisecond: "<1s", time.Second: "1s", 61 * time.Second: "1m1s", time.Hour: "1h",
		time.Hour + 59*time.Second: "1h", 26 * time.Hour: "1d2h", 400*24*time.Hour + time.Minute: "400d",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestSentences(t *testing.T) {
	for d, want := range map[time.Duration][2]string{
		-time.Second: {"just now", "now"}, 0: {"just now", "now"}, 999 * time.Millisecond: {"just now", "now"},
		time.Second: {"1s ago", "in 1s"}, 26 * time.Hour: {"1d2h ago", "in 1d2h"},
	} {
		if got := [2]string{ago(d), in(d)}; got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0 failures", 1: "1 failure", 2: "2 failures"} {
		if got := plural(n, "failure"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
