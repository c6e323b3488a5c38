package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/redisstore"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

// Config says which cluster, and how its nodes are used.
type Config struct {
	// Node is what is the same for all nodes. It has no address.
	Node redisstore.Config
	// Addrs are some nodes of the cluster. One that answers tells of all others.
	Addrs []string
}

const (
	// refreshEvery is how often the slots are looked up although nothing asks for it.
	refreshEvery = 10 * time.Second
	// refreshPause is the least time between two of these.
	refreshPause = refreshEvery / 100
	// lingering is Store.linger in times of an operation, much more than operations take.
	lingering = 60
)

// Store is a lock.Store in a Redis Cluster. Open makes one.
type Store struct {
	cfg     Config
	log     *zap.Logger
	metrics *redisstore.Metrics
	within  time.Duration // of an operation with all its redirections
	linger  time.Duration // for how long connections are kept for names on their way, when no name is any more

	slots [layout.Slots]atomic.Pointer[node] // who has which slot; nil if that is not known

	list atomic.Pointer[[]*node] // all nodes, by their addresses: each request asks how busy they are

	wake   chan struct{} // size 1: the slots are to be looked up
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	nodes     map[string]*node
	listeners map[int]map[*listener]struct{} // by their slots
	sharded   bool                           // channels have slots; known with the first slots
}

var _ lock.Store = (*Store)(nil)

// Open makes a Store. It fails if the configuration is wrong, or if a node is there that belongs to no cluster. If none
// can be reached, the Store is unavailable until one can.
func Open(ctx context.Context, cfg Config, log *zap.Logger, m *redisstore.Metrics) (*Store, error) {
	if err := check(cfg); err != nil {
		return nil, err
	}
	cfg.Node = cfg.Node.WithDefaults()
	s := &Store{
		cfg: cfg, log: log.Named("cluster"), metrics: m, within: cfg.Node.OpTimeout, linger: lingering * cfg.Node.OpTimeout,
		wake: make(chan struct{}, 1), nodes: make(map[string]*node), listeners: make(map[int]map[*listener]struct{}),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	err := s.refresh(ctx)
	if errors.Is(err, ErrNoCluster) {
		s.cancel()
		return nil, err
	}
	if err == nil {
		_, err = s.Probe(ctx) // from now on it is known which data there were
	}
	if err != nil {
		s.log.Warn("the cluster cannot be used yet", zap.Error(err))
	}
	s.wg.Go(s.keepSlots)
	return s, nil
}

func check(cfg Config) error {
	if len(cfg.Addrs) == 0 {
		return errors.New("redis cluster: no address is configured")
	}
	for _, addr := range cfg.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("redis cluster: %w", err)
		}
	}
	if cfg.Node.DB != 0 {
		return errors.New("redis cluster: a cluster has one database, number 0")
	}
	return nil
}

// Waiting is how many operations wait for their turn, without renewals and probes. What waits for a node that cannot be
// reached is in nobody's way, and is refused when its time is up: it does not count.
func (s *Store) Waiting() (n int) {
	for _, nd := range s.all() {
		if nd.Connected() {
			n += nd.Waiting()
		}
	}
	return n
}

// Share is how many of them a tenant has, and how many tenants have any at one node at most.
func (s *Store) Share(tenant string) (its, tenants int) {
	for _, nd := range s.all() {
		if nd.Connected() {
			n, all := nd.Share(tenant)
			its, tenants = its+n, max(tenants, all)
		}
	}
	return its, tenants
}

// Close ends all connections and waits for everything that uses them. Operations under way get errors.
func (s *Store) Close() error {
	s.cancel()
	s.wg.Wait()
	s.mu.Lock()
	nodes := s.all()
	s.nodes = nil
	s.listLocked()
	s.mu.Unlock()
	return errors.Join(each(nodes, func(_ int, n *node) error { return n.close() })...)
}

// each asks all nodes at the same time: silent ones take long.
func each[T any](nodes []*node, ask func(i int, n *node) T) []T {
	all := make([]T, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { all[i] = ask(i, n) })
	}
	wg.Wait()
	return all
}

// node is a master.
type node struct {
	addr string
	*redisstore.Store

	open func(asking bool) (*redisstore.Store, error)

	mu     sync.Mutex        // guards the fields below
	data   string            // the key with the id of the data, empty if there is none yet
	dataIn int               // its slot
	asking *redisstore.Store // for names that are on their way here; nil while none is
	over   *time.Timer       // closes it
}

// newNode begins to use a master.
func (s *Store) newNode(addr string) (*node, error) {
	cfg := s.cfg.Node
	cfg.Addr, cfg.InSlots, cfg.Sharded = addr, true, s.sharded
	if cfg.TLS != nil && cfg.TLS.ServerName == "" {
		host, _, _ := net.SplitHostPort(addr) // else dialing tells what is wrong
		cfg.TLS = cfg.TLS.Clone()
		cfg.TLS.ServerName = host
	}
	n := &node{addr: addr}
	cfg.DataKey = func() string { return s.dataKey(n) }
	n.open = func(asking bool) (*redisstore.Store, error) {
		cfg := cfg
		cfg.Asking = asking
		return redisstore.New(cfg, s.log.With(zap.String(observe.KeyNode, addr)), s.metrics)
	}
	var err error
	n.Store, err = n.open(false)
	return n, err
}

// dataKey is where the id of a node's data is: in one of its slots, the same one as long as it has it.
func (s *Store) dataKey(n *node) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.data != "" && s.slots[n.dataIn].Load() == n {
		return n.data
	}
	for slot := range s.slots {
		if s.slots[slot].Load() == n {
			n.data, n.dataIn = layout.DataIn(slot), slot
			return n.data
		}
	}
	return layout.Data
}

// forAsked is the Store for names that are on their way to the node. It is closed when it was not asked for so long.
func (n *node) forAsked(linger time.Duration) (*redisstore.Store, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.asking != nil && n.over.Stop() {
		n.over.Reset(linger)
		return n.asking, nil
	}
	st, err := n.open(true)
	if err != nil {
		return nil, err
	}
	n.asking = st
	n.over = time.AfterFunc(linger, func() {
		n.mu.Lock()
		if n.asking == st {
			n.asking = nil
		}
		n.mu.Unlock()
		_ = st.Close() // nobody uses it
	})
	return st, nil
}

func (n *node) close() error {
	n.mu.Lock()
	asking := n.asking
	mine := asking != nil && n.over.Stop()
	n.mu.Unlock()
	err := n.Store.Close()
	if mine {
		err = errors.Join(err, asking.Close())
	}
	return err
}
