package redlock

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// stranger is a member at which another program has holds.
type stranger struct{ *node }

func (x stranger) See(ctx context.Context, name string) (lock.Seen, error) {
	st, err := x.node.See(ctx, name)
	for i := range st.Holds {
		st.Holds[i].Foreign, st.Holds[i].Fence = true, 0
	}
	return st, err
}

// redisson is a holder as a client of Redisson for one member calls it.
func redisson(member, thread int) lock.Owner {
	return lock.Owner(fmt.Sprintf("285475da-9152-4c83-822a-67ee2f116a%02d:%d", member, thread))
}

// One holder has another name at each member. It is one for all who look, and for who wants the name.
func TestAHolderOfRedissonsRedLockIsOne(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Write} {
		inWorld(t, 3, Config{}, func(w *world) {
			var all []lock.Store
			for i, n := range w.nodes {
				c := claimOf("n", redisson(i, 52))
				c.Kind, c.TTL = kind, time.Minute
				w.puts(i, c)
				n.lag(time.Millisecond)
				all = append(all, stranger{n})
			}
			s, err := New(Config{}, all, w.log, nil)
			must(t, err)
			st, err := s.Look(w.Context(), "n")
			if err != nil || !st.Held || commonOwner(st.Owner) != ":52" || st.Members < 2 {
				t.Errorf("looked: %+v, %v", st, err)
			}
			hs, err := s.Holders(w.Context(), "n", 10)
			if err != nil || len(hs) != 1 || commonOwner(hs[0].Owner) != ":52" || hs[0].Count != 1 {
				t.Errorf("holders: %+v, %v", hs, err)
			}
			seen, err := s.See(w.Context(), "n")
			if err != nil || len(seen.Holds) != 1 || seen.Holds[0].Unsure {
				t.Errorf("seen: %+v, %v", seen, err)
			}
			c := claimOf("n", "o")
			c.Kind = kind
			_, err = lock.Await(w.Context(), s.StartAcquire, c)
			if held, ok := errors.AsType[*lock.HeldError](err); !ok || held.RetryAfter < 50*time.Second {
				t.Errorf("got %v, and another try after %v", err, held.RetryAfter)
			}
			w.becomesOf(0, redisson(0, 53))
			if st, err = s.Look(w.Context(), "n"); err != nil || !st.Held || st.Members != 2 {
				t.Errorf("looked later: %+v, %v", st, err)
			}
			w.becomesOf(1, redisson(1, 54))
			if st, err = s.Look(w.Context(), "n"); err != nil || st.Held {
				t.Errorf("looked at last: %+v, %v", st, err)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// becomesOf has another one hold the name at a member.
func (w *world) becomesOf(member int, next lock.Owner) {
	w.nodes[member].Store.Expire("n")
	w.puts(member, claimOf("n", next))
}
