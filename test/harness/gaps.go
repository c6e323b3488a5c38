package harness

import "time"

// Gap is a time in which something did not answer.
type Gap struct{ From, To time.Time }

// Gaps asks something again and again whether it answers, until stop. That returns when it did not for longer than a
// bound, because it or this process stood still.
func Gaps(bound time.Duration, answers func() bool) (stop func() []Gap) {
	over, found := make(chan struct{}), make(chan []Gap, 1)
	go func() {
		var all []Gap
		for last, on := time.Now(), true; on; {
			select {
			case <-over:
				on = false
			case <-time.After(bound / 10):
			}
			asked := time.Now()
			if !answers() && on {
				continue
			}
			if now := time.Now(); now.Sub(last) > bound {
				all = append(all, Gap{last, now})
			}
			last = asked
		}
		found <- all
	}()
	return func() []Gap { close(over); return <-found }
}
