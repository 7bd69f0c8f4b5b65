package main

import (
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 999 * time.Millisecond: "0s", 61 * time.Second: "1m1s", time.Hour: "1h",
		time.Hour + 59*time.Second: "1h", 26 * time.Hour: "1d2h", 400*24*time.Hour + time.Minute: "400d",
	} {
		if got := age(d); got != want {
			t.Errorf("age(%v) = %s, want %s", d, got, want)
		}
	}
}

func TestMicros(t *testing.T) {
	for us, want := range map[int64]string{0: "0us", 999: "999us", 1000: "1ms", 12345: "12.3ms", 999499: "999ms", 999500: "1s", 1234567: "1.23s", 61e6: "61s", 12345678901: "12346s"} {
		if got := micros(us); got != want {
			t.Errorf("micros(%d) = %s, want %s", us, got, want)
		}
	}
}
