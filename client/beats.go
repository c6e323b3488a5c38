package client

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// instant is a time on the monotonic clock: nanoseconds since the Client was made. Wall clocks play no role.
type instant int64

const never instant = math.MaxInt64

// longest is more than any time that matters. Durations that a server tells are cut to it, so that no sum or product
// overflows.
const longest = 10 * 365 * 24 * time.Hour

// told is a time that a server told.
func told(d *durationpb.Duration) time.Duration { return min(max(d.AsDuration(), -longest), longest) }

// heartbeats remembers when the last heartbeats were sent, because what the server tells about validity counts from
// there. Its zero value plus opened is ready for use.
type heartbeats struct {
	opened instant // when Open was sent
	last   uint64  // the newest sent_id, 0 before the first
	sent   [64]instant
}

// next notes a heartbeat that is about to be sent and returns its sent_id.
func (h *heartbeats) next(now instant) uint64 {
	h.last++
	h.sent[h.last%uint64(len(h.sent))] = now
	return h.last
}

// at is when a heartbeat was sent, or an earlier time if that is not known: a deadline that counts from too early a
// time is too early, which is safe.
func (h *heartbeats) at(id uint64) instant {
	if id == 0 || id > h.last || h.last-id >= uint64(len(h.sent)) {
		return h.opened
	}
	return h.sent[id%uint64(len(h.sent))]
}

// validity is until when something is valid, as a server told it.
type validity struct {
	deadline instant
	most     bool // until the end of its MaxHold
}

// validity is when a validity ends.
//
//	deadline = time at which the anchor was sent + anchor_age + remaining
//
// The server had the anchor after we sent it, so the true end is no earlier.
func (h *heartbeats) validity(v *lockdv1.Validity) validity {
	deadline := h.at(v.GetAnchor()) + instant(told(v.GetAnchorAge())+told(v.GetRemaining()))
	return validity{deadline, v.GetUntilMaxHold()}
}

// most is when max_hold ends, of which left remained when v was told; 0 if left is nil.
func (h *heartbeats) most(v *lockdv1.Validity, left *durationpb.Duration) instant {
	if left == nil {
		return 0
	}
	return h.at(v.GetAnchor()) + instant(told(v.GetAnchorAge())+told(left))
}
