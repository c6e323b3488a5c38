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

// Examiner is a Store that can tell whether its servers are fit to keep leases.
type Examiner interface {
	// Examine looks at all servers, and changes nothing. It ends soon after ctx, and within a bound of its own. It also
	// tells what it could not look at by then.
	Examine(ctx context.Context) []Finding
}

// Declarer is a Store that several programs share. They must all use it in the same way.
type Declarer interface {
	// Declare keeps a text for ttl from now on, unless another one is kept, and returns the text that is kept. Stores with
	// different prefixes keep texts of their own. Repeated or executed late: the text is kept for longer.
	Declare(ctx context.Context, text string, ttl time.Duration) (kept string, err error)

	// Overlaps notes that the prefix of this Store is in use for ttl from now on, and returns the prefixes of others that
	// begin with this one, or with which this one begins: a key may be a name of both. Repeated or executed late: as
	// Declare.
	Overlaps(ctx context.Context, ttl time.Duration) (prefixes []string, err error)
}
