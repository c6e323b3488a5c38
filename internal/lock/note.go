package lock

import "sync/atomic"

// Note is room in a lease, or in a session, for what the keeper notes about it. Only the keeper uses it; 0 at first.
type Note struct{ atomic.Uint32 }
