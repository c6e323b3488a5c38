package client

import "time"

// FirstBeat is when a session sends its first heartbeat.
var FirstBeat = firstBeat

// Other tests want to know when.
func init() { firstBeat = func(interval time.Duration) time.Duration { return interval } }

// StopAlarms has no timer end a lock of the session any more, as when the process was stopped over its deadline.
func (c *Client) StopAlarms() {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alarm.stop()
	s.alarm.at = 1
}
