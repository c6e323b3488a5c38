package broker

import (
	"time"

	"github.com/lockd-io/lockd/internal/admission"
)

// Config is what a Broker is told at its start. All fields are required but KeyPrefix.
type Config struct {
	// Replica is this process's name for people.
	Replica string
	// KeyPrefix is what the store puts in front of each name.
	KeyPrefix string
	// SessionTTL is the TTL of a session that asks for none; the others bound what it may ask for.
	SessionTTL    time.Duration
	MinSessionTTL time.Duration
	MaxSessionTTL time.Duration
	Limits        Limits
	// HandoffBurst is how often in a row a name is handed over inside this replica before it is really released, so
	// that waiters elsewhere get their turn.
	HandoffBurst int
	// AnswerTime is how much longer than its wait a request lasts at most, when the store does not answer. It should be
	// longer than what a call of the store may take.
	AnswerTime time.Duration
}

// Limits are the bounds a Broker keeps.
type Limits struct {
	admission.Limits
	NameBytes          int
	HolderBytes        int
	AnnotationBytes    int
	FrameBytes         int // kept by grpcapi, announced with the others
	LocksPerSession    int // held or asked for
	WaitersPerSession  int
	WatchesPerSession  int
	QueueLength        int // waiters of one name on this replica
	NamesPerAcquire    int // locks of one request
	MinLease, MaxLease time.Duration
	MaxWait            time.Duration
}

const (
	// heartbeats is how many heartbeats a client sends in a session TTL.
	heartbeats = 3
	// clientNameBytes bounds the name a client gives itself.
	clientNameBytes = 128
	// maxLabels and labelBytes bound the labels of a client.
	maxLabels  = 32
	labelBytes = 256
	// sideBySide is how many waiters of one name are tried at once for shared holds. New requests are not counted.
	sideBySide = 64
	// probeInterval is how often the store is asked whether it is there.
	probeInterval = time.Second
	// pollInterval bounds how long the head of a queue trusts a remaining TTL and the notices of the store.
	pollInterval = 10 * time.Second
	// blindPollInterval is used while the store does not confirm that it is listened to.
	blindPollInterval = time.Second
	// yieldPause is how long a replica stands back after a burst of hand-overs when others listen.
	yieldPause = 10 * time.Millisecond
	// retryPause is the pause after a failed attempt, doubled up to maxRetryPause.
	retryPause    = 50 * time.Millisecond
	maxRetryPause = 2 * time.Second
	// closeTime is how long Close waits for what may have been taken and is being given back.
	closeTime = 2 * time.Second
)

// margin is how much shorter than its TTL a lease is trusted: clocks of lockd and the store may drift apart by 1 %,
// and the store counts in milliseconds.
//
//	validity = start of the call + TTL - (TTL/100 + 2 ms)
func margin(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
