// Package peers lets the replicas of lockd ask each other a question.
//
// # What it promises
//
// A question reaches all replicas that share the store at that moment. The answers that come within a second are
// returned, and how many replicas were asked. Questions and answers under way are bounded.
//
// # What it does not promise
//
// A replica that is cut off or busy does not answer, and what it knows is missing. So nothing may depend on answers but
// what people look at. Nothing is stored, and nothing is asked unless somebody wants to know. What is told with Tell is
// not answered.
//
// # How it works
//
// A question is published to a topic that every replica hears, and says to which topic the answers go. Questions of
// another sort have another topic, so a replica that does not know them is not asked.
package peers

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

const (
	// askTime is how long answers are waited for, unless Within says otherwise.
	askTime = time.Second
	// MaxQuestions and maxAnswers bound what is under way at a time.
	MaxQuestions = 16
	maxAnswers   = 16
	// maxReplicas is more than anybody runs.
	maxReplicas = 64
)

// ErrBusy: MaxQuestions are under way.
var ErrBusy = errors.New("too many questions to the other replicas are under way")

// Peers is this replica's part. Q and A are questions and answers, as JSON can write them.
type Peers[Q, A any] struct {
	// Within is how long answers are waited for. It is not changed while anybody asks.
	Within time.Duration

	store  lock.Peers
	topic  string // where questions are published
	id     string // of this Peers, never used again
	answer func(Q) A
	failed func(error)
	slots  chan struct{} // has a value for each answer under way
	ctx    context.Context
	cancel context.CancelFunc
	stop   []func()
	wg     sync.WaitGroup

	mu       sync.Mutex // guards the fields below
	closed   bool
	last     uint64 // question
	awaiting map[uint64]chan A
}

// envelope carries a question, or an answer.
type envelope[T any] struct {
	ID   uint64 `json:"id"`
	From string `json:"from,omitempty"` // the topic for answers, also who asks
	Told bool   `json:"told,omitempty"` // no answer is wanted
	Body T      `json:"body"`
}

// Join makes this replica answer the questions of a topic until Leave. id is one that no other process has. failed is
// called when an answer could not be sent.
func Join[Q, A any](store lock.Peers, topic, id string, answer func(Q) A, failed func(error)) *Peers[Q, A] {
	ctx, cancel := context.WithCancel(context.Background())
	p := &Peers[Q, A]{
		Within: askTime, store: store, topic: topic, id: id + ":" + topic, answer: answer, failed: failed,
		slots: make(chan struct{}, maxAnswers),
		ctx:   ctx, cancel: cancel, awaiting: make(map[uint64]chan A),
	}
	p.stop = []func(){store.Subscribe(topic, p.asked), store.Subscribe(p.id, p.answered)}
	return p
}

// Leave ends what Join and Ask began, and waits for answers under way.
func (p *Peers[Q, A]) Leave() {
	for _, stop := range p.stop {
		stop()
	}
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
}

// asked answers a question, unless too many are being answered.
func (p *Peers[Q, A]) asked(message []byte) {
	var q envelope[Q]
	if err := json.Unmarshal(message, &q); err != nil || q.From == p.id || q.From == "" {
		return // our own, or somebody else's message
	}
	select {
	case p.slots <- struct{}{}:
	default:
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.wg.Go(func() {
		defer func() { <-p.slots }()
		answer, err := json.Marshal(envelope[A]{ID: q.ID, Body: p.answer(q.Body)})
		if err == nil && !q.Told {
			_, err = p.store.Publish(p.ctx, q.From, answer)
		}
		if err != nil {
			p.failed(err)
		}
	})
}

// answered passes an answer on to whoever waits for it.
func (p *Peers[Q, A]) answered(message []byte) {
	var a envelope[A]
	if err := json.Unmarshal(message, &a); err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.awaiting[a.ID] <- a.Body: // nil if nobody waits any more
	default:
	}
}

// Ask collects the answers of all replicas, this one's first. asked is how many were asked: answers that do not come
// within Within are missing, without an error. If the others cannot be asked, there is this one's answer and an error.
func (p *Peers[Q, A]) Ask(ctx context.Context, q Q) (answers []A, asked int, err error) {
	id, come, err := p.await()
	if err != nil {
		return nil, 0, err
	}
	defer p.forget(id)
	message, err := json.Marshal(envelope[Q]{ID: id, From: p.id, Body: q})
	if err != nil {
		return nil, 0, err
	}
	answers = append(answers, p.answer(q))
	heard, err := p.store.Publish(ctx, p.topic, message)
	if err != nil {
		return answers, len(answers), err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.Within, errors.New("a replica did not answer"))
	defer cancel()
	asked = max(heard, 1)
	for len(answers) < asked {
		select {
		case a := <-come:
			answers = append(answers, a)
		case <-ctx.Done():
			return answers, asked, nil
		case <-p.ctx.Done():
			return answers, asked, nil
		}
	}
	return answers, asked, nil
}

// Tell sends q to the other replicas, which do not answer.
func (p *Peers[Q, A]) Tell(ctx context.Context, q Q) error {
	message, err := json.Marshal(envelope[Q]{From: p.id, Told: true, Body: q})
	if err == nil {
		_, err = p.store.Publish(ctx, p.topic, message)
	}
	return err
}

// await begins to wait for the answers to a question.
func (p *Peers[Q, A]) await() (id uint64, come chan A, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.awaiting) >= MaxQuestions {
		return 0, nil, ErrBusy
	}
	p.last++
	come = make(chan A, maxReplicas)
	p.awaiting[p.last] = come
	return p.last, come, nil
}

func (p *Peers[Q, A]) forget(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.awaiting, id)
}
