package broker

import (
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/lockd-io/lockd/internal/limits"
)

// Config is what a Broker is told at its start. All but KeyPrefix, History and Tracer are required.
type Config struct {
	// Replica is this process's name for people.
	Replica string
	// KeyPrefix is what the store puts in front of each name.
	KeyPrefix string
	Limits    limits.Limits
	Session   limits.Session
	// HandoffBurst is how often in a row a name is handed over inside this replica before it is really released, so
	// that waiters elsewhere get their turn.
	HandoffBurst int
	// AnswerTime is how much longer than its wait a request lasts at most, when the store does not answer. It should be
	// longer than what a call of the store may take.
	AnswerTime time.Duration
	// History is how many events of names are remembered for people; 0 for none.
	History int
	// Tracer makes the spans of requests, with mutexes held, so it must not block; nil: there are none.
	Tracer trace.Tracer
}

const (
	// probeInterval is how often the store is asked whether it is there.
	probeInterval = time.Second
	// closeTime is how long Close waits for what may have been taken and is being undone.
	closeTime = 2 * time.Second
)
