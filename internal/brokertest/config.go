// Package brokertest has what tests of brokers share.
package brokertest

import (
	"time"

	"github.com/lockd-io/lockd/internal/admission"
	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/request"
)

// Config has roomy limits and the times that are the defaults of the daemon.
func Config() broker.Config {
	return broker.Config{
		Replica: "test",
		Limits: broker.Limits{
			Limits: admission.Limits{Sessions: 1000},
			Bounds: request.Bounds{
				NameBytes: 512, HolderBytes: 128, AnnotationBytes: 4096, NamesPerAcquire: 64,
				MinLease: 100 * time.Millisecond, MaxLease: 24 * time.Hour, MaxWait: 168 * time.Hour,
				SessionTTL: 30 * time.Second, MinSessionTTL: time.Second, MaxSessionTTL: 10 * time.Minute,
			},
			FrameBytes: 1 << 20, LocksPerSession: 10000, WaitersPerSession: 10000, WatchesPerSession: 100, QueueLength: 10000,
		},
		HandoffBurst: 32, AnswerTime: 1500 * time.Millisecond,
	}
}
