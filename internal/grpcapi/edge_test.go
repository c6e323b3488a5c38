package grpcapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

func TestOpenAtTheLastMomentLeavesNoSessionBehind(t *testing.T) {
	inBubble(t, func(s *server) {
		for range 200 {
			c := s.raw()
			synctest.Wait()
			time.Sleep(5 * time.Second) // the server stops to wait at this moment, too
			_ = c.Send(openWith(&lockdv1.Open{}))
			_ = c.Send(acquire(1, &lockdv1.Acquire{Name: "job"}))
			_ = c.CloseSend()
			_ = c.end()
			synctest.Wait()
			if n := len(s.b.Sessions("", 10)); n != 0 {
				s.t.Fatalf("%d sessions without a stream are left", n)
			}
		}
	})
}
