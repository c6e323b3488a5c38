package election

import "time"

// Trust is the election, whose observers ask again after this time at most, or when the lease would have ended.
func (e *Election) Trust(d time.Duration) *Election {
	e.trust = d
	return e
}
