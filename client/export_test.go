package client

import "time"

// FirstBeat is when a session sends its first heartbeat.
var FirstBeat = firstBeat

// Other tests want to know when.
func init() { firstBeat = func(interval time.Duration) time.Duration { return interval } }
