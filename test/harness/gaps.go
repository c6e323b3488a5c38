package harness

import "time"

// Gap is a time in which something did not answer.
type Gap struct{ From, To time.Time }

// Gaps calls answers again and again until stop is called. stop returns the times, each longer than bound, without an
// answer, as something or this process stood still.
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
			switch now, n := time.Now(), len(all)-1; {
			case now.Sub(last) <= bound:
			case n >= 0 && !all[n].To.Before(last): // it is the same one still, or another one that begins in it
				all[n].To = now
			default:
				all = append(all, Gap{last, now})
			}
			last = asked
		}
		found <- all
	}()
	return func() []Gap { close(over); return <-found }
}
