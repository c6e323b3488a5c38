package client

import "time"

// FirstBeat is when a session sends its first heartbeat.
var FirstBeat = firstBeat

// Other tests want to know when.
func init() { firstBeat = func(interval time.Duration) time.Duration { return interval } }

// StopAlarms has no timer end a lock of the session any more, as when the process was stopped over its deadline.
func (c *Client) StopAlarms() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session.alarm.Stop()
	c.session.alarmAt = 0
}

// StandStill has nothing be heard for a time, as when the process was stopped for so long.
func (c *Client) StandStill(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session.stream.heard.Add(-int64(d))
}

// SetMostUnanswered changes a bound until what it returns is called.
func SetMostUnanswered(n int) (restore func()) {
	old := mostUnanswered
	mostUnanswered = n
	return func() { mostUnanswered = old }
}
