package lock

import "sync/atomic"

// Note is what a keeper notes of a lease, or of something that has many, and keeps there. Nobody else reads it; 0 at
// first.
type Note struct{ atomic.Uint32 }
