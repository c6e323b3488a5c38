package client_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
)

// TestClientsDoNotBeatInStep has the first heartbeats of many sessions spread over the whole interval, none later.
func TestClientsDoNotBeatInStep(t *testing.T) {
	const interval, sessions, parts = 10 * time.Second, 10_000, 10
	var sums [parts]int
	for range sessions {
		at := client.FirstBeat(interval)
		if at <= 0 || at > interval {
			t.Fatalf("the first heartbeat comes after %v", at)
		}
		sums[(at-1)*parts/interval]++
	}
	for _, sum := range sums {
		if sum < sessions/parts*3/4 {
			t.Errorf("of %d sessions so many begin in each %v: %v", sessions, interval/parts, sums)
			break
		}
	}
}
