package main

import (
	"strings"
	"time"
)

// duration is a time as a person writes it: 24h and 1m30s, not 24h0m0s. What is longer than a second is told in tenths.
func duration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// milliseconds is duration for what JSON tells, or a dash.
func milliseconds(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return duration(time.Duration(*ms) * time.Millisecond)
}
