package lock

import (
	"context"
	"time"
)

// Severity says how bad a Finding is. A larger one is worse.
type Severity int

// The severities.
const (
	SeverityOK      Severity = iota + 1 // as it should be
	SeverityInfo                        // worth knowing, or could not be looked at
	SeverityWarning                     // works, but something that may happen takes locks away, or delays them
	SeverityError                       // a promise does not hold, or nothing works
)

// Finding is what one check found at one place.
type Finding struct {
	Severity Severity
	Check    string // what was looked at, like MAXMEMORY_POLICY
	Node     string // where
	Detail   string // what was found
	Remedy   string // what to do about it; empty if nothing is to be done
}

// Examiner is a Store that can tell whether what it keeps leases in is fit for that.
type Examiner interface {
	// Examine looks at all servers, and changes nothing. It ends soon after ctx, and within a bound of its own; what
	// could not be looked at by then is told as well.
	Examine(ctx context.Context) []Finding
}

// Declarer is a Store that several programs share. They must all use it in the same way.
type Declarer interface {
	// Declare keeps a text for a time from now on, unless another one is kept, and returns the text that is kept.
	// Stores with different prefixes keep texts of their own. Repeated: the text is kept for longer. Executed late:
	// likewise.
	Declare(ctx context.Context, text string, ttl time.Duration) (kept string, err error)

	// Overlaps notes for a time from now on that the prefix of this Store is in use, and returns the prefixes of others
	// whose names may be names here: one begins as the other. Repeated or executed late: as Declare.
	Overlaps(ctx context.Context, ttl time.Duration) (prefixes []string, err error)
}
