package main

import (
	"testing"
	"time"
)

func TestDuration(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		24 * time.Hour:                     "24h",
		90 * time.Second:                   "1m30s",
		time.Hour + 30*time.Second:         "1h0m30s",
		time.Hour + 30*time.Minute:         "1h30m",
		10 * time.Minute:                   "10m",
		20 * time.Second:                   "20s",
		29_695 * time.Millisecond:          "29.7s",
		59_990 * time.Millisecond:          "1m",
		1500 * time.Millisecond:            "1.5s",
		250 * time.Millisecond:             "250ms",
		250*time.Millisecond + 100:         "250ms",
		0:                                  "0s",
		3*time.Hour + 900*time.Millisecond: "3h0m1s",
	} {
		if got := duration(d); got != want {
			t.Errorf("%d ns: got %s, want %s", d, got, want)
		}
	}
}
