package client_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
)

// TestClientsDoNotBeatInStep has the first heartbeats of many sessions come at different moments, none late.
func TestClientsDoNotBeatInStep(t *testing.T) {
	const interval = 10 * time.Second
	moments := map[time.Duration]bool{}
	for range 100 {
		at := client.FirstBeat(interval)
		if at < interval/2 || at > interval {
			t.Fatalf("the first heartbeat comes after %v", at)
		}
		moments[at.Round(time.Millisecond)] = true
	}
	if len(moments) < 90 {
		t.Errorf("100 sessions have %d moments", len(moments))
	}
}
