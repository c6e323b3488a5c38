package lock

import "sync/atomic"

// Note is room in a lease, or in something that has many, where its keeper notes what it knows of it. Nobody else reads
// it; 0 at first.
type Note struct{ atomic.Uint32 }
