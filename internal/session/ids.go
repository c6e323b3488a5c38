package session

import "github.com/lockd-io/lockd/internal/limits"

const (
	idWindow = limits.RequestIDs
	idWords  = idWindow/64 + 1 // the window may begin and end within words
)

// requestIDs remembers which request ids a session has used, in bounded memory: the greatest one, and one bit for
// each of the idWindow ids up to it. It is the anti-replay window of RFC 6479.
type requestIDs struct {
	greatest uint64
	seen     [idWords]uint64
}

// use marks an id as used and says whether it was not used before.
func (r *requestIDs) use(id uint64) bool {
	if id == 0 || id+idWindow <= r.greatest && id+idWindow > id {
		return false
	}
	if id > r.greatest {
		for back := range min(id/64-r.greatest/64, idWords) { // those that the window comes to are forgotten
			r.seen[(id/64-back)%idWords] = 0
		}
		r.greatest = id
	}
	word, bit := &r.seen[id/64%idWords], uint64(1)<<(id%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

// useAll marks all ids up to one as used.
func (r *requestIDs) useAll(last uint64) {
	r.greatest = last
	for i := range r.seen {
		r.seen[i] = ^uint64(0)
	}
	r.seen[last/64%idWords] >>= 63 - last%64
}
