package grpcapi_test

import (
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// TestStreamsWithoutOpenAreBounded begins streams and says nothing on them. They count as sessions of their address
// until the server has waited for Open long enough.
func TestStreamsWithoutOpenAreBounded(t *testing.T) {
	inBubble(t, func(s *server) {
		for range 100 { // as many as one address may have
			s.raw()
		}
		synctest.Wait()
		for range 3 {
			c := s.raw()
			_ = c.Send(openWith(&lockdv1.Open{})) // the stream may be over already
			if got := reasonOf(status.Convert(c.end())); got != "QUOTA_SESSIONS_PER_ADDRESS" {
				t.Errorf("one stream too many: got %q", got)
			}
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		s.open(&lockdv1.Open{})
	})
}
