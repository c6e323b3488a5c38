package election

import "time"

// Impatient is the election, whose observers ask more often.
func (e *Election) Impatient() *Election {
	e.trust = time.Second
	return e
}
