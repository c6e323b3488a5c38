// Package brokertest has what tests of brokers share.
package brokertest

import (
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/config"
)

// Config has the defaults of the daemon, but smaller bounds of sessions, watches and queues, and no bounds by address
// but that of watches.
func Config() broker.Config {
	c := config.Default()
	c.Limits.Sessions, c.Limits.WatchesPerSession, c.Limits.QueueLength = 1000, 100, 10000
	c.Limits.SessionsPerAddress, c.Limits.LocksPerAddress, c.Limits.CallsPerAddress = 0, 0, 0
	c.Limits.WaitsPerAddress, c.Limits.NamesPerAddress = 0, 0
	return broker.Config{
		Replica: "test", Limits: c.Limits, Session: c.Session, HandoffBurst: c.Broker.HandoffBurst,
		History:    1000,
		AnswerTime: 1500 * time.Millisecond,
	}
}
