package arbiter

import (
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// clashes knows how often those who ask for the name at several replicas stood in each other's way. They do so again if
// they all ask at the same moment, such as when they hear of a release.
type clashes struct {
	inRow  int8          // since another answer
	lately int8          // how many more such answers are needed to ask at once again
	apart  time.Duration // as the store said it last
}

const (
	// calmAfter is how many answers without a clash show that nobody is in the way any more.
	calmAfter = 3
	// mostInRow bounds how often a pause is doubled, and mostApart how often one after a release is.
	mostInRow, mostApart = 20, 4
	// maxApart bounds a pause after a release that was doubled.
	maxApart = 2 * time.Second
)

// decided takes note that somebody has the name.
func (c *clashes) decided() { c.inRow, c.lately = 0, max(c.lately-1, 0) }

func (c *clashes) refused(held *lock.HeldError) {
	c.apart = held.Apart
	if held.Clash {
		c.inRow, c.lately = min(c.inRow+1, mostInRow), calmAfter
	} else {
		c.decided()
	}
}

// after is when to ask after a release that was heard now. It is zero for at once. With each clash in a row it is
// later, so that of many one comes first in the end.
func (c *clashes) after(now time.Time) (at time.Time) {
	if c.lately == 0 || c.apart == 0 {
		return at
	}
	doubled := c.apart << min(max(c.inRow-1, 0), mostApart)
	return now.Add(max(c.apart, min(doubled, maxApart)))
}

// longer is for how long to wait if no release is heard. Somebody may have the name without being seen.
func (c *clashes) longer(pause time.Duration) time.Duration {
	return min(pause<<max(c.inRow-1, 0), pollInterval)
}
