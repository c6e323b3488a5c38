package grpcapi_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Unary calls wait for their turn with their messages in memory, so that these are small.
func TestTheMessageOfAUnaryCallIsSmall(t *testing.T) {
	inBubble(t, func(s *server) {
		locks := lockdv1.NewLockServiceClient(s.conn)
		_, err := locks.Acquire(s.t.Context(), &lockdv1.AcquireRequest{
			Name: "n", Lease: seconds(1), Annotation: strings.Repeat("x", 100<<10),
		})
		if st := status.Convert(err); st.Code() != codes.ResourceExhausted || reasonOf(st) != "FRAME_TOO_LARGE" {
			t.Errorf("a large message got %v", err)
		}
		if _, err := locks.Acquire(s.t.Context(), &lockdv1.AcquireRequest{
			Name: strings.Repeat("n", 512), Lease: seconds(1), Annotation: strings.Repeat("x", 4096),
		}); err != nil {
			t.Errorf("the largest that is allowed got %v", err)
		}
	})
}
