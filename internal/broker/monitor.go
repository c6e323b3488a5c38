package broker

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// monitor asks the store every probeInterval whether it is there. While it is not, the sessions that hold leases are
// told AtRisk; when it is back, or came back as another one, every lease is verified at once.
func (b *Broker) monitor() {
	stop := b.store.ListenForced(b.forced)
	defer stop()
	for b.ctx.Err() == nil {
		ctx, cancel := context.WithTimeoutCause(b.ctx, probeInterval, errors.New("the store did not answer a probe in time"))
		identity, err := b.store.Probe(ctx)
		cancel()
		if b.ctx.Err() == nil {
			b.probed(identity, err)
		}
		lock.Pause(b.ctx, probeInterval)
	}
}

// errNotProbed is the state of a store that was not asked yet.
var errNotProbed = errors.New("the store was not asked yet")

func (b *Broker) probed(identity string, err error) {
	b.noQuorum.Store(errors.Is(err, lock.ErrNoQuorum))
	b.mu.Lock()
	before, known := b.down, b.identity
	b.down = err
	if err == nil {
		b.identity = identity
	}
	b.mu.Unlock()
	first := errors.Is(before, errNotProbed)
	switch back := before != nil && !first; {
	case err != nil && (first || !back):
		b.log.Warn("the store cannot be reached", zap.Error(err))
		b.metrics.atRisk.Inc()
		b.sessions.AtRisk()
	case err != nil:
		b.sessions.AtRisk()
	case back || known != "" && identity != known:
		b.log.Info("the store is back; verifying all leases", zap.Bool(observe.KeyRestarted, identity != known))
		b.back.Store(int64(b.stamp(time.Now())))
		b.sessions.Verify()
		b.eachShard(func(h *shard) { // a queue that waits for the store need not wait longer
			for _, q := range h.queues {
				q.Wake()
				q.signalLocked()
			}
		})
	default:
		b.sessions.Safe()
	}
}

// forced has the leases of a name verified that was freed by force, here or elsewhere; all leases if name is "".
func (b *Broker) forced(name string) {
	if name == "" {
		if b.recounts.Add(1) == 1 {
			b.goTaking(func() {
				for n := b.recounts.Load(); n > 0; n = b.recounts.Add(-n) {
					b.sessions.Recount()
				}
			})
		}
		return
	}
	b.doubtHolds(name, 0)
	b.verifyHolds(name)
}
