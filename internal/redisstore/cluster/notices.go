package cluster

import (
	"context"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

// listener listens to a channel in a slot, at the node that has the slot.
type listener struct {
	slot   int
	listen func(*redisstore.Store) (stop func())
	at     *node // nil while nobody has the slot
	stop   func()
}

// hear listens until stop is called, at whatever node has the slot.
func (s *Store) hear(slot int, listen func(*redisstore.Store) (stop func())) (stop func()) {
	e := &listener{slot: slot, listen: listen, stop: func() {}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listeners[slot] == nil {
		s.listeners[slot] = make(map[*listener]struct{})
	}
	s.listeners[slot][e] = struct{}{}
	s.moveLocked(e)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if delete(s.listeners[slot], e); len(s.listeners[slot]) == 0 {
			delete(s.listeners, slot)
		}
		e.stop()
		e.stop = func() {}
	}
}

// moveLocked has a listener listen to the node that has its slot now.
func (s *Store) moveLocked(e *listener) {
	n := s.slots[e.slot].Load()
	if n == e.at || n == nil || s.ctx.Err() != nil {
		return
	}
	e.stop()
	e.at, e.stop = n, e.listen(n.Store)
}

// moveListenersLocked moves the listeners of one slot. It does not look at others, which may be very many, because
// slots may move one after the other.
func (s *Store) moveListenersLocked(slot int) {
	for e := range s.listeners[slot] {
		s.moveLocked(e)
	}
}

// hearName listens to a channel of a name, and has the slots looked up at NoticeDeaf, because the slot may have moved.
// For a name that cannot be used here it never calls notify.
func (s *Store) hearName(
	name string, notify func(lock.Notice), listen func(*redisstore.Store, func(lock.Notice)) (stop func()),
) (stop func()) {
	slot, err := s.slotOf(name)
	if err != nil {
		return func() {}
	}
	return s.hear(slot, func(at *redisstore.Store) func() {
		return listen(at, func(n lock.Notice) {
			if n.What == lock.NoticeDeaf {
				s.refreshSoon()
			}
			notify(n)
		})
	})
}

// Listen implements lock.Store.
func (s *Store) Listen(name string, kind lock.Kind, notify func(lock.Notice)) (stop func()) {
	return s.hearName(name, notify, func(at *redisstore.Store, told func(lock.Notice)) func() {
		return at.Listen(name, kind, told)
	})
}

// ListenTurn implements lock.Store.
func (s *Store) ListenTurn(name string, o lock.Owner, notify func(lock.Notice)) (stop func()) {
	return s.hearName(name, notify, func(at *redisstore.Store, told func(lock.Notice)) func() {
		return at.ListenTurn(name, o, told)
	})
}

// Watch implements lock.Store.
func (s *Store) Watch(name string, notify func(lock.Notice)) (stop func()) {
	return s.hearName(name, notify, func(at *redisstore.Store, told func(lock.Notice)) func() {
		return at.Watch(name, told)
	})
}

// ListenForced implements lock.Store. A message to all replicas is heard at every node.
func (s *Store) ListenForced(notify func(name string)) (stop func()) {
	return s.hear(layout.Slot(layout.Control), func(at *redisstore.Store) func() { return at.ListenForced(notify) })
}

// Publish implements lock.Peers. All replicas publish and hear a topic at one node, which knows how many they are.
func (s *Store) Publish(ctx context.Context, topic string, message []byte) (int, error) {
	return askSlot(ctx, s, s.slotOfTopic(topic), func(at *redisstore.Store) (int, error) {
		return at.Publish(ctx, topic, message)
	})
}

// Subscribe implements lock.Peers.
func (s *Store) Subscribe(topic string, notify func(message []byte)) (stop func()) {
	return s.hear(s.slotOfTopic(topic), func(at *redisstore.Store) func() { return at.Subscribe(topic, notify) })
}

func (s *Store) slotOfTopic(topic string) int {
	return layout.Slot(layout.Topic(0, s.cfg.Node.Prefix, topic))
}
