package grpcapi

import (
	"runtime"
	"strings"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// TestAnAnswerThatIsForgottenEnds is of one that gRPC has no more and never freed.
func TestAnAnswerThatIsForgottenEnds(t *testing.T) {
	ended := make(chan struct{})
	a := newReply(t.Context(), &lockdv1.WhoAmIResponse{Client: strings.Repeat("x", 1<<16)}, func() { close(ended) })
	if _, err := newFrameCodec(1<<20, 1<<20).Marshal(a); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		runtime.GC()
		select {
		case <-ended:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error("it counts for as long as its connection is there")
}
