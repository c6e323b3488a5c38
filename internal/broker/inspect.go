package broker

import (
	"context"
	"regexp"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Origin says by which program a lock was taken.
type Origin uint8

// The origins.
const (
	// OriginSession: a session of lockd.
	OriginSession Origin = iota + 1
	// OriginUnary: a unary call of lockd.
	OriginUnary
	// OriginOther: another program on the same store, as Redisson.
	OriginOther
)

// HolderInfo describes a hold of a name, whoever's it is. What nobody knows is zero.
type HolderInfo struct {
	Owner      lock.Owner    `json:"owner"`
	Origin     Origin        `json:"origin"`
	Kind       lock.Kind     `json:"kind"`
	Session    string        `json:"session,omitempty"`
	Client     Client        `json:"client"`
	Replica    string        `json:"replica,omitempty"`
	Age        time.Duration `json:"age"`
	TTL        time.Duration `json:"ttl"` // or NoTTL
	Auto       bool          `json:"auto,omitempty"`
	Fence      lock.Fence    `json:"fence,omitempty"`
	Count      uint32        `json:"count"`
	Permits    uint32        `json:"permits,omitempty"`
	Annotation string        `json:"annotation,omitempty"`

	since time.Time
}

// Inspection is what is known of a name, by the store and by all replicas.
type Inspection struct {
	Lock    LockInfo
	Holders []HolderInfo
	Waiters []WaiterInfo
	// Answered is how many of the replicas that were Asked answered, this one included. What the others know is missing.
	Answered, Asked int
}

// Inspect tells who holds a name and who waits for it, wherever they are, at most so many of each. It asks all replicas and
// waits up to a second for one that does not answer.
func (b *Broker) Inspect(ctx context.Context, name string, holders, waiters int) (Inspection, error) {
	lock, err := b.Lock(ctx, name)
	if err != nil {
		return Inspection{}, err
	}
	held, err := b.store.Holders(ctx, name, holders)
	if err != nil {
		return Inspection{}, err
	}
	queued, err := b.store.Queue(ctx, name, 0, waiters)
	if err != nil {
		return Inspection{}, err
	}
	known, asked, err := b.askPeers(ctx, question{Name: name, Holders: holders, Waiters: waiters})
	if err != nil {
		return Inspection{}, err
	}
	in := Inspection{Lock: lock, Answered: len(known), Asked: asked}
	in.Holders = whoHolds(lock.State, held, known)
	in.Holders = in.Holders[:min(len(in.Holders), holders)]
	in.Waiters = whoWaits(name, queued, known)
	in.Waiters = in.Waiters[:min(len(in.Waiters), waiters)]
	return in, nil
}

// whoHolds puts together what the store and the replicas know. The store decides who holds the name and how long; but
// permits have no owners there, so those that no replica knows are told as one.
func whoHolds(st lock.State, held []lock.Holder, known []knowledge) (infos []HolderInfo) {
	described := make(map[lock.Owner]HolderInfo)
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
			infos = append(infos, HolderInfo{Kind: lock.Semaphore, Permits: st.Holders - permits, TTL: st.TTL})
		}
		return infos
	}
	for _, h := range held {
		info, there := described[h.Owner]
		if !there {
			info = HolderInfo{Owner: h.Owner, Origin: originOf(h.Owner), Kind: h.Kind, Session: sessionOf(h.Owner)}
		}
		info.TTL, info.Count = h.TTL, h.Count
		infos = append(infos, info)
	}
	return infos
}

// whoWaits puts together who waits. The store knows the fair ones and their order; the others stand behind them, by replica.
func whoWaits(name string, queued []lock.Owner, known []knowledge) (infos []WaiterInfo) {
	described := make(map[lock.Owner]WaiterInfo)
	for _, k := range known {
		for _, w := range k.Waiters {
			described[w.Owner] = w
		}
	}
	for i, o := range queued {
		info, there := described[o]
		if !there {
			info = WaiterInfo{Name: name, Kind: lock.Fair, Owner: o, Session: sessionOf(o)}
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

// ownerOfSession is what owners of sessions look like, see Owner. Redisson's have no '#'.
var ownerOfSession = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:.*#[0-9]+$`)

// unarySuffix ends the owners of unary leases.
const unarySuffix = ":unary"

// originOf tells by an owner alone which program's it is.
func originOf(o lock.Owner) Origin {
	switch {
	case ownerOfSession.MatchString(string(o)):
		return OriginSession
	case strings.HasSuffix(string(o), unarySuffix):
		return OriginUnary
	default:
		return OriginOther
	}
}

// sessionOf is the session of an owner, empty if it is none of a session.
func sessionOf(o lock.Owner) string {
	if originOf(o) != OriginSession {
		return ""
	}
	id, _, _ := strings.Cut(string(o), ":")
	return id
}

// holdersLocked describes at most so many of the holds that sessions of this replica have.
func (q *queue) holdersLocked(most int) (infos []HolderInfo) {
	now := time.Now()
	describe := func(l *Lease) {
		infos = append(infos, HolderInfo{
			Owner: l.owner, Origin: OriginSession, Kind: l.kind, Session: l.sess.id, Client: l.sess.client,
			Replica: l.b.cfg.Replica, Age: now.Sub(l.b.time(l.since)), TTL: max(l.until.Sub(now), 0), Auto: l.auto, Fence: l.fence,
			Count: l.count, Permits: l.permits, Annotation: l.annotation,
		})
	}
	if q.holder != nil && q.holder != takenOver {
		describe(q.holder)
	}
	for _, l := range q.sharers {
		if len(infos) >= most {
			break
		}
		describe(l)
	}
	return infos
}
