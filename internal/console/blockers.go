package console

import (
	"context"
	"net/url"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// How much is drawn and listed.
const (
	mostNodes  = 24
	mostEdges  = 80
	mostChains = 5
)

// node is somebody who waits for others or for whom others wait: a session, with the others of its actor, or another
// program.
type node struct {
	ID, Client, Replica string
	Annotation          string   // of a hold that others wait for, else of a wait
	Sessions            []string // that are known
	Holds               []string // the names that others wait for
	Blocks              int      // how many wait for it, directly or through others
	Longest             *durationpb.Duration
	InCircle            bool
	X, Y                int // of its box

	to    []*edge        // whom it waits for
	by    map[*node]bool // who waits for it
	depth int            // 0 waits for nobody
}

// edge says that one waits for a lock that another one holds.
type edge struct {
	From, To *node
	Name     string
	Path     string // its curve
}

type foundBlockers struct {
	asking
	Deadlocks     []*lockdv1.Deadlock
	Nodes         []*node
	Edges         []*edge
	Top           []*node   // that most others wait for
	Chains        [][]*edge // the longest ones
	Width, Height int
	Cut           bool
}

// parties joins the sessions of one actor: what one of them waits for keeps them all from going on. An entry leads to
// another one, and at last to the one that stands for all.
type parties map[string]string

func (p parties) of(session string) string {
	next, led := p[session]
	if !led {
		return session
	}
	p[session] = p.of(next)
	return p[session]
}

func (p parties) join(session, mark string) {
	if session == "" || mark == "" {
		return
	}
	if all, actor := p.of(session), p.of("actor:"+mark); all != actor {
		p[actor] = all
	}
}

// waits has the request that waits longest of each session, and of each actor's mark.
type waits struct {
	ofSession, ofActor map[string]*lockdv1.WaiterInfo
}

// stuck says that a holder waits.
type stuck struct {
	Who string // the actor; or its session, as nobody knows which of a session's threads waits
	For *lockdv1.WaiterInfo
}

func waitsOf(waiters []*lockdv1.WaiterInfo) waits {
	w := waits{map[string]*lockdv1.WaiterInfo{}, map[string]*lockdv1.WaiterInfo{}}
	for _, one := range slices.Backward(waiters) { // the longest is the first
		w.ofSession[one.GetSessionId()], w.ofActor[one.GetActorMark()] = one, one
	}
	delete(w.ofSession, "")
	delete(w.ofActor, "")
	return w
}

// Of is what a holder waits for; nil for nothing.
func (w waits) Of(h *lockdv1.HolderInfo) *stuck {
	if one := w.ofActor[h.GetActorMark()]; one != nil {
		return &stuck{"It", one}
	}
	if one := w.ofSession[h.GetSessionId()]; one != nil {
		return &stuck{"Its session", one}
	}
	return nil
}

// lookBlockers finds who waits for whom, by what sessions wait for and hold.
func lookBlockers(ctx context.Context, _ *Console, a *asker, _ url.Values) (any, error) {
	f := &foundBlockers{}
	waiters, err := a.waiters(ctx, "", &f.asking)
	if err != nil {
		return nil, err
	}
	locked, err := a.inspect.ListDeadlocks(ctx, &lockdv1.ListDeadlocksRequest{})
	if err != nil {
		return nil, err
	}
	f.add(locked, "")
	f.Deadlocks = locked.GetDeadlocks()
	holders, err := f.holders(ctx, a, waiters)
	if err != nil {
		return nil, err
	}
	one := parties{}
	for _, w := range waiters {
		one.join(w.GetSessionId(), w.GetActorMark())
	}
	for _, hs := range holders {
		for _, h := range hs {
			one.join(h.GetSessionId(), h.GetActorMark())
		}
	}
	f.draw(one, waiters, holders)
	return f, nil
}

// holders are the holders of the names that are waited for, among the sessions of all replicas.
func (f *foundBlockers) holders(
	ctx context.Context, a *asker, waiters []*lockdv1.WaiterInfo,
) (map[string][]*lockdv1.HolderInfo, error) {
	wanted, found := map[string]bool{}, map[string][]*lockdv1.HolderInfo{}
	for _, w := range waiters {
		wanted[w.GetName()] = true
	}
	in := &lockdv1.ListHoldsRequest{PageSize: mostHolds, MinAge: durationpb.New(1)} // so Redis is not asked
	for range mostPages {
		if len(found) == len(wanted) {
			return found, nil
		}
		page, err := a.inspect.ListHolds(ctx, in)
		if err != nil {
			return nil, err
		}
		f.add(page, page.GetStoreError())
		for _, h := range page.GetHolds() {
			if name := h.GetLock().GetName(); wanted[name] {
				found[name] = append(found[name], h.GetHolder())
			}
		}
		if in.PageToken = page.GetNextPageToken(); in.PageToken == "" {
			break
		}
	}
	f.Cut = f.Cut || in.PageToken != ""
	return found, nil
}
