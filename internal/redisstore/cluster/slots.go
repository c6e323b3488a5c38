package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/redisstore"
)

// ErrNoCluster is what Open returns if the server that answered is not a node of a cluster.
var ErrNoCluster = errors.New("this redis is not a node of a cluster: give nodes of a cluster, or use another " +
	"store.kind")

// refreshSoon has the slots looked up soon. It does not wait.
func (s *Store) refreshSoon() {
	select {
	case s.wake <- struct{}{}:
	default: // it is about to happen
	}
}

// keepSlots looks up the slots when refreshSoon asks for it, and now and then.
func (s *Store) keepSlots() {
	every := time.NewTicker(refreshEvery)
	defer every.Stop()
	told := false // the log was told that no node tells
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-every.C:
		case <-s.wake:
		}
		err := s.refresh(s.ctx)
		if err != nil && !told && s.ctx.Err() == nil {
			s.log.Warn("nobody tells which node has which slots", zap.Error(err))
		}
		told = err != nil
		if lock.Pause(s.ctx, refreshPause); s.ctx.Err() != nil {
			return
		}
	}
}

// answer is which node has which slots, as one of them says.
type answer struct {
	by      string
	told    []redis.ClusterSlot
	sharded bool // channels have slots
	err     error
}

// refresh asks one node after the other which node has which slots, until one tells. It asks the next one when one has
// failed or is silent.
func (s *Store) refresh(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	addrs := s.whoMayTell()
	answers := make(chan answer, len(addrs))
	for asked, failed := 0, 0; ; {
		if asked < len(addrs) {
			addr := addrs[asked]
			asked++
			s.wg.Go(func() { answers <- s.ask(ctx, addr) })
		}
		select {
		case a := <-answers:
			failed++
			switch {
			case a.err == nil:
				return s.learn(a)
			case failed == len(addrs) || errors.Is(a.err, ErrNoCluster):
				return a.err
			}
		case <-time.After(s.within / 2): // it is silent
		}
	}
}

// whoMayTell are the addresses to ask: those of the known nodes, in random order, and then those of the configuration.
func (s *Store) whoMayTell() []string {
	s.mu.Lock()
	known := slices.Collect(maps.Keys(s.nodes))
	s.mu.Unlock()
	rand.Shuffle(len(known), func(i, j int) { known[i], known[j] = known[j], known[i] })
	for _, addr := range s.cfg.Addrs {
		if !slices.Contains(known, addr) {
			known = append(known, addr)
		}
	}
	return known
}

func (s *Store) ask(ctx context.Context, addr string) answer {
	cfg := s.cfg.Node
	cfg.Addr = addr
	c, err := cfg.Client()
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = c.Close() }() // its answer was read
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	late := errors.New("the node did not answer in time")
	ctx, cancel := context.WithTimeoutCause(ctx, cfg.ConnectTimeout+2*s.within, late)
	defer cancel()
	told, err := c.ClusterSlots(ctx).Result() //nolint:staticcheck // Redis 6.2 has no CLUSTER SHARDS
	if redis.HasErrorPrefix(err, "This instance has cluster support disabled") ||
		redis.HasErrorPrefix(err, "unknown command") {
		return answer{err: fmt.Errorf("%s: %w", addr, ErrNoCluster)}
	}
	old := false // before 7.0 there are no such channels
	if err == nil {
		err = c.PubSubShardNumSub(ctx).Err()
		if _, old = errors.AsType[redis.Error](err); old {
			err = nil
		}
	}
	if err != nil {
		err = fmt.Errorf("%s: %w: %w", addr, lock.ErrUnavailable, err)
	}
	return answer{addr, told, !old, err}
}

// learn takes over what a node told. Listeners of a slot that moved listen to its new node from now on.
func (s *Store) learn(a answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.nodes) == 0 {
		s.sharded = a.sharded
	}
	used := make(map[string]bool)
	for _, r := range a.told {
		if len(r.Nodes) == 0 {
			continue
		}
		n, err := s.nodeLocked(reachable(r.Nodes[0].Addr, a.by))
		if err != nil {
			return err
		}
		used[n.addr] = true
		for slot := max(r.Start, 0); slot <= min(r.End, len(s.slots)-1); slot++ {
			s.slots[slot].Store(n)
		}
	}
	for slot := range s.listeners {
		s.moveListenersLocked(slot)
	}
	s.dropLocked(used)
	return nil
}

// reachable is addr, as the node at by told it; but a new node does not know its own host, which then is that of by.
func reachable(addr, by string) string {
	host, port, err := net.SplitHostPort(addr)
	if err == nil && (host == "" || host == "?") {
		host, _, _ = net.SplitHostPort(by)
		return net.JoinHostPort(host, port)
	}
	return addr
}

// nodeLocked is the node at an address. It begins to use the node if that is new.
func (s *Store) nodeLocked(addr string) (*node, error) {
	if s.ctx.Err() != nil {
		return nil, errClosed
	}
	if n := s.nodes[addr]; n != nil {
		return n, nil
	}
	n, err := s.newNode(addr)
	if err != nil {
		return nil, err
	}
	s.nodes[addr] = n
	s.listLocked()
	s.log.Info("using a node", zap.String(observe.KeyNode, addr))
	return n, nil
}

// dropLocked closes nodes that have no slots any more and are not in used, after twice the time of an operation: some
// may be under way.
func (s *Store) dropLocked(used map[string]bool) {
	for slot := range s.slots {
		if n := s.slots[slot].Load(); n != nil {
			used[n.addr] = true
		}
	}
	for addr, n := range s.nodes {
		if used[addr] {
			continue
		}
		delete(s.nodes, addr)
		s.listLocked()
		s.log.Info("a node has no slots any more", zap.String(observe.KeyNode, addr))
		s.wg.Go(func() {
			lock.Pause(s.ctx, 2*s.within)
			_ = n.close() // no operation is under way there
		})
	}
}

// moved notes that a slot is at another node, and returns that.
func (s *Store) moved(slot int, addr string) (*redisstore.Store, error) {
	s.refreshSoon()
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.slots[slot].Load()
	if before == nil {
		return nil, errNoNode
	}
	n, err := s.nodeLocked(reachable(addr, before.addr))
	if err != nil {
		return nil, err
	}
	if n != before {
		s.slots[slot].Store(n)
		s.moveListenersLocked(slot)
	}
	return n.Store, nil
}

// all are the nodes that there are. The list must not be changed.
func (s *Store) all() []*node {
	if list := s.list.Load(); list != nil {
		return *list
	}
	return nil
}

func (s *Store) listLocked() {
	list := slices.SortedFunc(maps.Values(s.nodes), func(a, b *node) int { return strings.Compare(a.addr, b.addr) })
	s.list.Store(&list)
}
