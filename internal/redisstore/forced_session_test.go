package redisstore

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
)

// What is left of a record that was ended by force lasts as long as the record would have, and an hour at least: so
// whoever has the session finds it when he prolongs the record.
func TestTheEndOfARecordByForceIsKnownForLong(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, c := open(t, quick(srv)), srv.Client()
	for ttl, want := range map[time.Duration]time.Duration{
		time.Minute: lock.ForcedEnd, 2 * time.Hour: 2 * time.Hour,
	} {
		id := ttl.String()
		r := lock.SessionRecord{ID: id, Nonce: "a", TokenHash: "t"}
		for _, r.Epoch = range []uint64{1, 1<<53 - 1} {
			must(t, s.TakeSession(t.Context(), r, ttl))
		}
		was, err := s.ForceEndSession(t.Context(), id)
		if err != nil || !was {
			t.Fatalf("got %v, %v", was, err)
		}
		near(t, "what is left", c.PTTL(t.Context(), layout.Session("", id)).Val(), want)
		must(t, s.EndSession(t.Context(), id, r.Epoch))
	}
}
