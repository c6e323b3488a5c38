package redisstore

import (
	"testing"

	"github.com/lockd-io/lockd/internal/lock"

	"github.com/lockd-io/lockd/internal/redistest"
)

// What clients cause succeeds even without the renewals' connections, so it cannot be in the way of a renewal.
func TestOnlyRenewalsUseTheirConnections(t *testing.T) {
	s := open(t, quick(redistest.Start(t)))
	f := acquire(t, s, claim("n", "o")).Fence
	r := lock.Renewal{Name: "n", Kind: lock.Exclusive, Owner: "o", Fence: f, TTL: lease}
	renew := func(r lock.Renewal) (err error) {
		s.Renew(t.Context(), []lock.Renewal{r}, func(_ int, e error) { err = e })
		return err
	}
	wantErr(t, renew(r), nil)
	s.steady.close()
	wantErr(t, renew(r), lock.ErrUnavailable)
	_, err := s.Extend(t.Context(), r)
	wantErr(t, err, nil)
	r.TTL = 0
	wantErr(t, renew(r), nil)
	_, err = s.Extend(t.Context(), r)
	wantErr(t, err, nil)
}
