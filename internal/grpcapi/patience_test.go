package grpcapi

import (
	"testing"
	"time"
)

// TestHeartbeatsDoNotFallBehindAtTheGate has heartbeats come in time and stand behind many pieces of requests, each of
// which waits as long as it may. The delay of each heartbeat is bounded, and does not add up.
func TestHeartbeatsDoNotFallBehindAtTheGate(t *testing.T) {
	const ttl = 30 * time.Second
	const pieces = 64
	open := time.Now()
	beat, now := open, open
	for n := 1; n <= 100; n++ {
		sent := open.Add(time.Duration(n) * ttl / 3)
		for ahead := 0; ahead < pieces || now.Before(sent); ahead++ {
			now = now.Add(max(patience(now, beat, ttl)*4/3, time.Millisecond))
		}
		if delay := now.Sub(sent); delay > ttl/30+mostPatience {
			t.Fatalf("heartbeat %d is read %v after it was sent", n, delay)
		}
		beat = sentAt(now, beat, ttl)
	}
}
