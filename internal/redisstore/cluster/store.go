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
	// Node is the configuration that all nodes share. It has no address.
	Node redisstore.Config
	// Addrs are some nodes of the cluster. One that answers tells of all others.
	Addrs []string
}

const (
	// refreshEvery is how often the slots are looked up even if nothing asks for it.
	refreshEvery = 10 * time.Second
	// refreshPause is the least time between two lookups.
	refreshPause = refreshEvery / 100
	// lingering is Store.linger in timeouts of an operation.
	lingering = 60
)

// Store is a lock.Store in a Redis Cluster. Open makes one.
type Store struct {
	cfg     Config
	log     *zap.Logger
	metrics *redisstore.Metrics
	within  time.Duration // of an operation with all its redirections
	linger  time.Duration // for how long node.asking is kept after its last use

	slots [layout.Slots]atomic.Pointer[node] // the node of each slot; nil if it is not known

	list atomic.Pointer[[]*node] // all nodes, by address; each request reads it, so without a mutex

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

// Open makes a Store. It fails if the configuration is wrong, or if a server answers that belongs to no cluster. While
// no node can be reached, the Store is unavailable.
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
		_, err = s.Probe(ctx) // notes which data there are
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

// Waiting is how many operations wait to be sent, without renewals and probes. Those for a node that cannot be reached
// do not count: they are in nobody's way, and fail when their time is up.
func (s *Store) Waiting() (n int) {
	for _, nd := range s.all() {
		if nd.Connected() {
			n += nd.Waiting()
		}
	}
	return n
}

// Share is how many of these operations a tenant has, and how many tenants have any at the node with most tenants.
func (s *Store) Share(tenant string) (its, tenants int) {
	for _, nd := range s.all() {
		if nd.Connected() {
			n, all := nd.Share(tenant)
			its, tenants = its+n, max(tenants, all)
		}
	}
	return its, tenants
}

// Close ends all connections and waits for everything that uses them. Operations under way end with an error.
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

// each asks all nodes at the same time, because silent ones take long.
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
	asking *redisstore.Store // for slots that are moving here; nil while nobody asks for one
	over   *time.Timer       // closes it
}

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

// dataKey is the key with the id of a node's data. It is in one of the node's slots, the same one as long as the node
// has that.
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

// forAsked is the Store for slots that are moving to the node. It is closed when nobody asked for it for linger.
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
