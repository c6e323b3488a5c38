package broker

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/peers"
)

// Replicas ask each other what they know of a name, only when a person wants to see it. A lock costs nothing more for that.

// question asks every replica who holds a name and who waits for it.
type question struct {
	Name    string `json:"name"`
	Holders int    `json:"holders"` // at most so many
	Waiters int    `json:"waiters"`
}

// knowledge is what one replica knows of a name.
type knowledge struct {
	Holders []HolderInfo `json:"holders"`
	Waiters []WaiterInfo `json:"waiters"`
}

// joinPeers begins to answer questions.
func (b *Broker) joinPeers() {
	b.peers = peers.Join(b.store, newID(), b.know, func(err error) {
		b.log.Debug("a question of another replica was not answered", zap.Error(err))
	})
}

// askPeers collects what all replicas know of a name, this one first. It says as well how many were asked.
func (b *Broker) askPeers(ctx context.Context, q question) (known []knowledge, asked int, err error) {
	known, asked, err = b.peers.Ask(ctx, q)
	if errors.Is(err, peers.ErrBusy) {
		err = b.metrics.denied("inspections", peers.MaxQuestions)
	}
	return known, asked, err
}

// know is what this replica knows of a name.
func (b *Broker) know(q question) (k knowledge) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if queue := b.queues[q.Name]; queue != nil {
		k.Holders = queue.holdersLocked(q.Holders)
		k.Waiters = b.here(pageLocked(queue.waiters.front, 0, q.Waiters))
	}
	k.Holders = append(k.Holders, b.notes.of(q.Name, q.Holders-len(k.Holders))...)
	return k
}
