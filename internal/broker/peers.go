package broker

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"
)

// Replicas ask each other what they know of a name, only when a person wants to see it. Nothing is stored for that: a lock
// costs nothing more. A question is published to a topic that every replica hears, and says to which topic the answers go.
// What a replica that does not answer knows is missing, and the reply says so.

const (
	// askTopic is where questions are published.
	askTopic = "ask"
	// askTime is how long answers are waited for.
	askTime = time.Second
	// maxAsks and maxAnswers bound the questions and answers under way at a time.
	maxAsks    = 16
	maxAnswers = 16
)

// question asks every replica who holds a name and who waits for it.
type question struct {
	ID      string `json:"id"`
	From    string `json:"from"` // the topic for answers, also who asks
	Name    string `json:"name"`
	Holders int    `json:"holders"` // at most so many
	Waiters int    `json:"waiters"`
}

// knowledge is what one replica knows of a name.
type knowledge struct {
	ID      string       `json:"id"`
	Holders []HolderInfo `json:"holders"`
	Waiters []WaiterInfo `json:"waiters"`
}

// peers is this replica's part in that.
type peers struct {
	id       string // of this process, never the same again
	answers  chan struct{}
	stop     []func()
	mu       sync.Mutex // guards the fields below
	awaiting map[string]chan knowledge
}

// joinPeers begins to answer questions.
func (b *Broker) joinPeers() {
	p := &b.peers
	p.id, p.answers, p.awaiting = newID(), make(chan struct{}, maxAnswers), make(map[string]chan knowledge)
	p.stop = []func(){b.store.Subscribe(askTopic, b.asked), b.store.Subscribe(p.id, p.answered)}
}

// asked answers a question, unless too many are being answered.
func (b *Broker) asked(message []byte) {
	var q question
	if err := json.Unmarshal(message, &q); err != nil || q.From == b.peers.id || q.From == "" {
		return // our own, or somebody else's message
	}
	select {
	case b.peers.answers <- struct{}{}:
	default:
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.wg.Go(func() {
		defer func() { <-b.peers.answers }()
		answer, err := json.Marshal(b.know(q))
		if err == nil {
			_, err = b.store.Publish(b.ctx, q.From, answer)
		}
		if err != nil {
			b.log.Debug("a question of another replica was not answered", zap.Error(err))
		}
	})
}

// answered passes an answer on to whoever waits for it.
func (p *peers) answered(message []byte) {
	var k knowledge
	if err := json.Unmarshal(message, &k); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.awaiting[k.ID] <- k: // nil if nobody waits any more
	default:
	}
}

// askAll collects what all replicas know of a name, this one first. It says as well how many were asked.
func (b *Broker) askAll(ctx context.Context, q question) (known []knowledge, asked int, err error) {
	p := &b.peers
	q.ID, q.From = newID(), p.id
	answers := make(chan knowledge, 64) // more replicas than anybody runs
	p.mu.Lock()
	busy := len(p.awaiting) >= maxAsks
	if !busy {
		p.awaiting[q.ID] = answers
	}
	p.mu.Unlock()
	if busy {
		return nil, 0, b.metrics.denied("inspections", maxAsks)
	}
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.awaiting, q.ID)
	}()
	message, err := json.Marshal(q)
	if err != nil {
		return nil, 0, err
	}
	known = append(known, b.know(q))
	heard, err := b.store.Publish(ctx, askTopic, message)
	if err != nil {
		return nil, 0, err
	}
	return b.collect(ctx, known, max(heard, 1), answers)
}

// collect waits for the answers of all who were asked.
func (b *Broker) collect(
	ctx context.Context, known []knowledge, asked int, answers <-chan knowledge,
) ([]knowledge, int, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, askTime, errors.New("a replica did not answer"))
	defer cancel()
	for len(known) < asked {
		select {
		case k := <-answers:
			known = append(known, k)
		case <-ctx.Done():
			return known, asked, nil
		case <-b.ctx.Done():
			return known, asked, nil
		}
	}
	return known, asked, nil
}

// know is what this replica knows of a name.
func (b *Broker) know(q question) knowledge {
	k := knowledge{ID: q.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	if queue := b.queues[q.Name]; queue != nil {
		k.Holders = queue.holdersLocked(q.Holders)
		k.Waiters = b.here(pageLocked(queue.waiters.Front(), 0, q.Waiters))
	}
	k.Holders = append(k.Holders, b.notes.of(q.Name, q.Holders-len(k.Holders))...)
	return k
}
