package grpcapi_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/benchtest"
	"github.com/lockd-io/lockd/internal/grpcapi"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// framePairs is how many pairs the frames of the measurement have.
const framePairs = 32

// mostAllocs is how often reading the two requests of a pair and writing its two answers may allocate, in full frames.
// Three are the texts that are kept, two the arms of the requests. The race detector has pools drop some memory.
const mostAllocs = 8

func TestAPairIsTranslatedWithFewAllocations(t *testing.T) {
	p := newPairs(t)
	benchtest.Allocs(t, framePairs, mostAllocs, func() { p.translate(t) })
}

// BenchmarkTranslation reads the two requests of a pair and writes its two answers, in full frames.
func BenchmarkTranslation(b *testing.B) {
	p := newPairs(b)
	b.ReportAllocs()
	for b.Loop() {
		p.translate(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*framePairs), "ns/pair")
}

// pairs are the frames of some pairs.
type pairs struct {
	translation *grpcapi.Translation
	frame       []byte
	events      []session.Event
}

func newPairs(tb testing.TB) *pairs {
	p := &pairs{translation: grpcapi.NewTranslation()}
	batch := &lockdv1.RequestBatch{}
	for i := range uint64(framePairs) {
		name := fmt.Sprint("name:", i)
		batch.Requests = append(batch.Requests,
			&lockdv1.SessionRequest{
				RequestId: 2*i + 1,
				Message:   &lockdv1.SessionRequest_Acquire{Acquire: &lockdv1.Acquire{Name: name}},
			},
			&lockdv1.SessionRequest{RequestId: 2*i + 2, Message: &lockdv1.SessionRequest_Release{
				Release: &lockdv1.Release{Name: name, Holder: fmt.Sprint("#", i), Fence: i + 1},
			}},
		)
		p.events = append(p.events, session.Granted{
			ID: 2*i + 1, Hold: session.Hold{
				Name: name, Kind: lock.Exclusive, Holder: fmt.Sprint("#", i),
				Fence: lock.Fence(i + 1),
			},
			Validity: session.Validity{Until: time.Now().Add(time.Minute), AnchorAt: time.Now()}, Count: 1, Auto: true,
		}, session.Released{ID: 2*i + 2})
	}
	frame, err := proto.Marshal(&lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Batch{Batch: batch}})
	if err != nil {
		tb.Fatal(err)
	}
	p.frame = frame
	return p
}

func (p *pairs) translate(tb testing.TB) {
	if n := p.translation.Read(p.frame); n != 2*framePairs {
		tb.Fatalf("read %d requests, want %d", n, 2*framePairs)
	}
	if n := p.translation.Write(p.events); n != 1 {
		tb.Fatalf("wrote %d frames, want 1", n)
	}
}
