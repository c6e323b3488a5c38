package redlock

import (
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/memstore"
)

// All members are asked, also if a majority has answered before the last one is: it would else be left with the hold of
// the owner, and the successor with a bare majority.
func TestAHandOverAsksAllMembersHoweverQuickOthersAre(t *testing.T) {
	stores := []*memstore.Store{memstore.New(), memstore.New(), memstore.New()}
	var all []lock.Store
	for _, m := range stores {
		all = append(all, eager{m})
	}
	s, err := New(Config{}, all, zap.NewNop(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	c := lock.Claim{Name: "n", Kind: lock.Exclusive, Owner: "a", TTL: time.Minute}
	g, err := lock.Await(t.Context(), s.StartAcquire, c)
	if err != nil {
		t.Fatal(err)
	}
	r := lock.Return{Name: "n", Kind: lock.Exclusive, Owner: "a", Fence: g.Fence}
	r.Next = &lock.Successor{Owner: "b", TTL: time.Minute}
	if res, err := lock.Await(t.Context(), s.StartRelease, r); err != nil || res.HandedOver == 0 {
		t.Fatalf("got %+v, %v, want it handed over", res, err)
	}
	for i, m := range stores {
		if st, err := m.Look(t.Context(), "n"); err != nil || st.Owner != "b" {
			t.Errorf("member %d has %+v, %v, want the successor", i, st, err)
		}
	}
}
