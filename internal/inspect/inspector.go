package inspect

import (
	"cmp"
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/history"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/peers"
	"github.com/lockd-io/lockd/internal/session"
)

// Store is the part of a lock.Store that an Inspector uses.
type Store interface {
	lock.Views
	lock.Queues
	lock.Peers
	// ForceEndSession is as in lock.Sessions.
	ForceEndSession(ctx context.Context, id string) (was bool, err error)
}

// Local tells what this replica knows.
type Local interface {
	// Describe adds what this replica knows to what the store knows of a name.
	Describe(st lock.State) session.LockInfo
	// Know tells who holds a name and who waits for it. holders and waiters bound how many it tells.
	Know(name string, holders, waiters int) Known
	// Sessions are up to size sessions of this replica, ordered by id, from the one after the given id on.
	Sessions(after string, size int) []Session
	// Leases are up to size leases of its sessions whose names begin with prefix, ordered by key, from the one after
	// the given key on.
	Leases(prefix, after string, size int) []Leased
	// Requests are up to most of those that wait here and pass a filter, the longest waiting first.
	Requests(f Filter, most int) []Waiter
	// End ends a session of this replica, or one that is coming here, and releases what it holds. It returns the session
	// as it was, nil if there is none, and whether the store has confirmed that nobody goes on with it. It waits for the
	// store until ctx ends.
	End(ctx context.Context, id string, by session.Forced) (was *Session, sure bool)
	// Doubt is called before a name is released by force. For a while this replica asks the store for it, and refuses
	// nobody because of what it remembers of its holder.
	Doubt(name string)
	// Oldest are the names of up to most leases of its sessions that are held for longest.
	Oldest(most int) []string
}

// Config is what an Inspector works with.
type Config struct {
	Replica string // this replica's name for people
	ID      string // and for other replicas
	Store   Store
	Local   Local
	History *history.Log // of this replica
	// CheckName says whether a name can be that of a lock.
	CheckName func(name string) error
	Denied    limits.Denied
	Log       *zap.Logger
}

// Inspector tells people what the store and all replicas know.
type Inspector struct {
	Config
	Notes    Notes
	forced   forcedNames
	looks    looks
	others   replicas
	peers    *peers.Peers[Question, Knowledge]
	listings limits.Quota
}

// New is an Inspector that answers the questions of other replicas. Leave ends that.
func New(cfg Config) *Inspector {
	d := &Inspector{Config: cfg, listings: limits.NewQuota("listings", limits.Listings, cfg.Denied)}
	failed := func(err error) { cfg.Log.Debug("a question of another replica was not answered", zap.Error(err)) }
	d.peers = peers.Join(cfg.Store, "ask", cfg.ID, d.answer, failed)
	return d
}

// Leave answers no more questions.
func (d *Inspector) Leave() { d.peers.Leave() }

// Lock tells what the store and this replica know of a name.
func (d *Inspector) Lock(ctx context.Context, name string) (session.LockInfo, error) {
	if err := d.CheckName(name); err != nil {
		return session.LockInfo{}, err
	}
	st, err := d.look(ctx, name)
	if err != nil {
		return session.LockInfo{}, err
	}
	return d.Local.Describe(st), nil
}

// Locks reads a page of the names that are held from the store, and the cursor of the next page.
func (d *Inspector) Locks(ctx context.Context, prefix, cursor string, size int) ([]session.LockInfo, string, error) {
	if err := d.listings.Enter(ctx, limits.ListingPatience); err != nil {
		return nil, "", err
	}
	defer d.listings.Leave()
	states, next, err := d.Store.List(ctx, prefix, cursor, size)
	bill(ctx, time.Duration(len(states))*limits.Looked)
	if err != nil {
		return nil, "", err
	}
	infos := make([]session.LockInfo, 0, len(states))
	for _, st := range states {
		infos = append(infos, d.Local.Describe(st))
	}
	return infos, next, nil
}

// Inspect tells who holds a name and who waits for it, wherever they are. holders and waiters bound how many it tells.
// It asks all replicas and waits up to a second for one that does not answer. If the store does not answer, it tells
// what replicas remember.
func (d *Inspector) Inspect(ctx context.Context, name string, holders, waiters int) (Inspection, error) {
	return d.inspect(ctx, name, Question{Holders: holders, Waiters: waiters})
}

func (d *Inspector) inspect(ctx context.Context, name string, q Question) (Inspection, error) {
	info, held, queued, err := d.stored(ctx, name, q)
	away := unasked(err)
	if err != nil && away == "" {
		return Inspection{}, err
	}
	q.Names = []string{name}
	answers, asking, err := d.ask(ctx, q)
	if err != nil {
		return Inspection{}, err
	}
	known := make([]Known, len(answers))
	for i, a := range answers {
		known[i] = a.Names[name]
	}
	if info.Kind == lock.Semaphore && away == "" {
		d.dropReturned(ctx, name, known)
	}
	in := Inspection{Lock: info, Asking: asking}
	in.Unasked = cmp.Or(away, in.Unasked)
	if away == "" {
		in.Holders = whoHolds(info.State, held, known)
	} else {
		in.Lock, in.Holders = remembered(name, known)
	}
	in.Holders = in.Holders[:min(len(in.Holders), q.Holders)]
	in.Waiters = whoWaits(name, queued, known)
	in.Waiters = in.Waiters[:min(len(in.Waiters), q.Waiters)]
	return in, nil
}

// stored is what the store knows of a name.
func (d *Inspector) stored(ctx context.Context, name string, q Question) (
	info session.LockInfo, held []lock.Holder, queued []lock.Owner, err error,
) {
	if info, err = d.Lock(ctx, name); err != nil {
		return info, nil, nil, err
	}
	if held, err = d.Store.Holders(ctx, name, q.Holders); err == nil && q.Waiters > 0 {
		queued, err = d.Store.Queue(ctx, name, q.Waiters)
	}
	return info, held, queued, err
}

// remembered is what replicas know of a name, without the store.
func remembered(name string, known []Known) (info session.LockInfo, holders []Holder) {
	info.Name = name
	for _, k := range known {
		info.Waiters += k.Waiting
		for _, h := range k.Holders {
			if h.TTL <= 0 {
				continue // it is over, if nobody renewed it
			}
			holders = append(holders, h)
			info.Held, info.Kind, info.Owner, info.Count = true, h.Kind, h.Owner, h.Count
			info.Fence, info.TTL = max(info.Fence, h.Fence), max(info.TTL, h.TTL)
			info.Holders += max(h.Permits, 1)
			info.Client, info.Annotation = h.Client.Name, h.Annotation
		}
	}
	return info, holders
}

// dropReturned drops unary leases of permits that the store no longer has: another replica than the one that remembers
// a lease may have released it. If the store does not tell, all are kept.
func (d *Inspector) dropReturned(ctx context.Context, name string, known []Known) {
	seen, err := d.Store.See(ctx, name)
	if err != nil || seen.Many {
		return
	}
	out := make(map[string]bool)
	for _, h := range seen.Holds {
		out[h.ID] = true
	}
	for i := range known {
		known[i].Holders = slices.DeleteFunc(known[i].Holders, func(h Holder) bool {
			return h.Kind == lock.Semaphore && h.Origin == OriginUnary && !out[lock.PermitsOf(h.Owner)]
		})
	}
}

// whoHolds puts together what the store and the replicas know. The store decides who holds the name and how long. But
// it has no owners of permits: those that no replica knows are told as one holder.
func whoHolds(st lock.State, held []lock.Holder, known []Known) (infos []Holder) {
	described := make(map[lock.Owner]Holder)
	var permits uint32
	for _, k := range known {
		for _, h := range k.Holders {
			described[h.Owner] = h
			if st.Kind == lock.Semaphore && h.Kind == lock.Semaphore {
				permits += h.Permits
				infos = append(infos, h)
			}
		}
	}
	if st.Kind == lock.Semaphore {
		if permits < st.Holders {
			infos = append(infos, Holder{Kind: lock.Semaphore, Permits: st.Holders - permits, TTL: st.TTL})
		}
		return infos
	}
	for _, h := range held {
		info, there := described[h.Owner]
		if !there {
			info = Holder{Owner: h.Owner, Origin: originOf(h.Owner), Kind: h.Kind, Session: sessionOf(h.Owner)}
		}
		info.TTL, info.Count = h.TTL, h.Count
		infos = append(infos, info)
	}
	return infos
}

// whoWaits puts together who waits. The store knows the waiters of fair locks and their order; all others come behind
// them, by replica.
func whoWaits(name string, queued []lock.Owner, known []Known) (infos []Waiter) {
	described := make(map[lock.Owner]Waiter)
	for _, k := range known {
		for _, w := range k.Waiters {
			described[w.Owner] = w
		}
	}
	for i, o := range queued {
		info, there := described[o]
		if !there {
			info = Waiter{Name: name, Kind: lock.Fair, Owner: o, Session: sessionOf(o)}
		}
		info.Position = i
		infos = append(infos, info)
		delete(described, o)
	}
	for _, k := range known {
		for _, w := range k.Waiters {
			if _, left := described[w.Owner]; left {
				infos = append(infos, w)
			}
		}
	}
	return infos
}
