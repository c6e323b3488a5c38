package main

import (
	"errors"
	"fmt"
	"testing"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// Without --kind a lease is found whatever its kind, also where there are not all kinds.
func TestALeaseIsFoundWhereThereAreNotAllKinds(t *testing.T) {
	var none kindFlag
	for _, row := range []struct {
		there client.Kind // 0 = none
		fair  bool        // whether the server has fair locks and semaphores
		want  error
	}{
		{client.Exclusive, true, nil},
		{client.Semaphore, true, nil},
		{0, true, client.ErrNotHeld},
		{client.Exclusive, false, nil},
		{client.Read, false, nil},
		{client.Write, false, nil},
		{0, false, client.ErrNotHeld},
	} {
		err := none.each(func(k lockdv1.LockKind) error {
			kind := client.Kind(k)
			switch {
			case !row.fair && (kind == client.Fair || kind == client.Semaphore):
				return fmt.Errorf("ask: %w", client.ErrUnsupported)
			case kind == row.there, kind == client.Fair && row.there == client.Exclusive:
				return nil
			}
			return client.ErrNotHeld
		})
		if !errors.Is(err, row.want) || row.want == nil && err != nil {
			t.Errorf("%+v: got %v", row, err)
		}
	}
}
