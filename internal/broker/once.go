package broker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// OnceLease is a lease that belongs to whoever knows its id. Any replica can extend and release it.
type OnceLease struct {
	Name     string
	LeaseID  string
	Fence    lock.Fence
	ValidFor time.Duration
}

// nameOf is the name of a client in the clients file; empty if there is no such file.
func nameOf(who session.Identity) string {
	if who == nil {
		return ""
	}
	return who.Client()
}

type onceAnswer struct {
	fence   lock.Fence
	until   time.Time
	refused session.Event // NotGranted or Failed
}

// onceOwner is the owner of a unary lease. It can be shown to anybody: the lease id cannot be found from it. With a
// clients file it is another one for each client.
func onceOwner(leaseID string, who session.Identity) lock.Owner {
	text := "lockd unary lease " + leaseID
	if who != nil {
		text += "\x00" + who.Client()
	}
	sum := sha256.Sum256([]byte(text))
	return lock.Owner(formatID([16]byte(sum[:16])) + lock.UnarySuffix)
}

// AcquireOnce takes a lock for a fixed time. It returns NotGranted if it is not granted. When ctx ends the request is
// taken back; what it took in that moment is released, unless the caller chose the lease id and can do so itself.
func (b *Broker) AcquireOnce(ctx context.Context, req request.Once) (OnceLease, *session.NotGranted, error) {
	ownID := req.LeaseID != ""
	err := b.rules.Once(&req)
	if err == nil {
		err = b.tenants.Name(req.Tenant, req.Name)
	}
	if err != nil {
		return OnceLease{}, nil, err
	}
	w := b.newOnceWaiter(req, ownID)
	if err := w.forbidden(w.who); err != nil {
		return OnceLease{}, nil, err
	}
	leave, err := b.countOnce(req)
	if err != nil {
		return OnceLease{}, nil, err
	}
	defer leave()
	if lease, held, err := b.againOnce(ctx, w, req); held || err != nil {
		return lease, nil, err
	}
	w.beginSpan(ctx, "")
	if err := b.joinOnce(w, req); err != nil {
		w.spanRefused(err)
		return OnceLease{}, nil, err
	}
	a := w.awaitOnce(ctx)
	if a.refused == nil && ctx.Err() != nil && !ownID { // granted at this moment, to a caller that is gone
		b.undo(w.Claim.Return())
		a.refused = session.NotGranted{Cause: session.ErrCancelled}
	}
	switch refused := a.refused.(type) {
	case session.NotGranted:
		return OnceLease{}, &refused, nil
	case session.Failed:
		return OnceLease{}, nil, refused.Err
	}
	lease, err := b.onceLease(w, req, a)
	return lease, nil, err
}

// awaitOnce waits for the answer, until ctx ends or the caller's credentials expire. Clocks may be set, so it looks
// again until they have expired.
func (w *waiter) awaitOnce(ctx context.Context) onceAnswer {
	const leastLook = 10 * time.Millisecond
	var expired <-chan time.Time // never
	if w.who != nil && !w.who.Until().IsZero() {
		expired = time.After(time.Until(w.who.Until()))
	}
	for {
		select {
		case a := <-w.once:
			return a
		case <-ctx.Done():
			w.Cancel()
			return <-w.once
		case <-expired:
			w.Review(w.who)
			expired = time.After(max(time.Until(w.who.Until()), leastLook))
		}
	}
}

// countOnce counts a request against the limits of its tenant, as a lock and as a waiter, until leave is called.
func (b *Broker) countOnce(req request.Once) (leave func(), err error) {
	use := b.tenants.Use(req.Tenant)
	if err := use.Take(limits.UseLocks, 1); err != nil {
		return nil, err
	}
	if err := use.Take(limits.UseWaiting, 1); err != nil {
		use.Give(limits.UseLocks, 1)
		return nil, err
	}
	return func() { use.Give(limits.UseLocks, 1); use.Give(limits.UseWaiting, 1) }, nil
}

// onceLease is the answer to a request that was granted. If its validity is over the outcome is unknown, and the hold
// is undone, unless the caller chose the lease id: it repeats the request, and must not lose that grant.
func (b *Broker) onceLease(w *waiter, req request.Once, a onceAnswer) (OnceLease, error) {
	lease := OnceLease{Name: req.Name, LeaseID: req.LeaseID, Fence: a.fence, ValidFor: time.Until(a.until)}
	if lease.ValidFor <= 0 {
		if !w.ownID {
			b.undo(w.Claim.Return())
		}
		return OnceLease{}, lock.ErrOutcomeUnknown
	}
	b.Notes.Add(&inspect.Note{Name: lease.Name, Until: time.Now().Add(lease.ValidFor), Info: inspect.Holder{
		Owner: w.Claim.Owner, Origin: inspect.OriginUnary, Kind: w.Claim.Kind,
		Client:  session.Client{Name: w.client, Peer: w.peer, Identity: nameOf(w.who)},
		Replica: b.cfg.Replica, Fence: lease.Fence, Count: 1, Permits: w.Claim.Permits, Annotation: w.annotation,
	}})
	return lease, nil
}

// newOnceWaiter is a unary request that was not tried yet.
func (b *Broker) newOnceWaiter(req request.Once, ownID bool) *waiter {
	w := &waiter{
		b: b, shard: b.shardOf(req.Name), lease: req.Lease, annotation: req.Annotation,
		client: req.Client, peer: req.Peer, who: req.Identity, ownID: ownID, once: make(chan onceAnswer, 1),
	}
	w.Claim = lock.Claim{
		Name: req.Name, Kind: req.Kind, Owner: onceOwner(req.LeaseID, req.Identity), TTL: req.Lease,
		Permits: request.PermitsOf(req.Kind, req.Permits), Limit: req.Limit, Tenant: req.Share(),
	}
	return w
}

// againOnce finds the lease of a caller that repeats its request while others wait for the name: it must not queue
// behind those who wait for its own lease. If the store does not say whether the lease is there, it returns an error,
// and never that it is not.
func (b *Broker) againOnce(ctx context.Context, w *waiter, req request.Once) (lease OnceLease, held bool, err error) {
	awaited := false // somebody here waits for the name, or has it for itself alone
	if w.ownID {
		b.withQueue(req.Name, func(q *queue) { awaited = q.Len() > 0 || q.holder != nil || q.Passing() })
	}
	if !awaited {
		return OnceLease{}, false, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.cfg.AnswerTime, lock.ErrOutcomeUnknown)
	defer cancel()
	own := lock.Renewal{
		Name: req.Name, Kind: req.Kind, Owner: w.Claim.Owner, Permits: w.Claim.Permits, Tenant: w.Claim.Tenant,
	}
	if _, err := lock.Await(ctx, b.store.StartExtend, own); err != nil {
		return OnceLease{}, false, unlessGone(err)
	}
	a := b.attempt(ctx, attempt{claim: w.Claim})
	if a.err != nil {
		return OnceLease{}, false, unlessGone(a.err)
	}
	lease, err = b.onceLease(w, req, onceAnswer{fence: a.fence(), until: a.until()})
	return lease, true, err
}

// unlessGone is nil for an error that says that a lease is not there.
func unlessGone(err error) error {
	if errors.Is(err, lock.ErrNotHeld) || errors.Is(err, lock.ErrHeld) {
		return nil
	}
	return err
}

func (b *Broker) joinOnce(w *waiter, req request.Once) error {
	w.lock()
	defer w.unlock()
	if b.sessions.Draining() {
		return session.ErrDraining
	}
	if err := w.forbidden(w.who); err != nil {
		return err
	}
	w.begin(req.Wait)
	return b.enterLocked(w)
}

// ExtendOnce has a unary lease last for req.Lease from now, or longer if it does already and req.MayShorten is not set.
// ErrNotHeld: it has ended. ErrOutcomeUnknown: repeat it; until the repetition is answered the earlier end counts.
func (b *Broker) ExtendOnce(req request.Once) (OnceLease, error) {
	name, k, owner := req.Name, req.Kind, onceOwner(req.LeaseID, req.Identity)
	err := cmp.Or(b.rules.NameKind(name, k), b.rules.Lease(&req.Lease), request.LeaseID(req.LeaseID))
	if err != nil {
		return OnceLease{}, err
	}
	r := lock.Renewal{Name: name, Kind: k, Owner: owner, TTL: req.Lease, Tenant: req.Share()}
	if k != lock.Semaphore { // permits keep no fence
		own := lock.Claim{Name: name, Kind: k, Owner: owner, Tenant: req.Share()}
		err := lock.Twice(func() (err error) { r.Fence, err = b.store.Raise(b.ctx, own); return err })
		if err != nil {
			return OnceLease{}, err
		}
	}
	until, err := b.extendOne(b.ctx, r, req.MayShorten)
	if err != nil {
		return OnceLease{}, err
	}
	lease := OnceLease{Name: name, LeaseID: req.LeaseID, Fence: r.Fence}
	b.Notes.Change(name, owner, func(n *inspect.Note) { n.Until = until })
	if lease.ValidFor = time.Until(until); lease.ValidFor <= 0 {
		return OnceLease{}, lock.ErrOutcomeUnknown
	}
	return lease, nil
}

// ReleaseOnce releases a unary lease, or all its permits but req.Keep, and returns how many are left. ErrNotHeld: it
// had ended. ErrOutcomeUnknown: repeat it. Both errors: the lease is there no more, but a call was not answered, and
// nobody knows whether that call released it or it had ended before.
func (b *Broker) ReleaseOnce(req request.Once) (left uint32, err error) {
	err = cmp.Or(b.rules.NameKind(req.Name, req.Kind), request.LeaseID(req.LeaseID), request.Keep(req.Kind, req.Keep))
	if err != nil {
		return 0, err
	}
	owner := onceOwner(req.LeaseID, req.Identity)
	note, r := b.Notes.Of(req.Name, owner), lock.Return{
		Name: req.Name, Kind: req.Kind, Owner: owner, Keep: req.Keep, Tenant: req.Share(),
	}
	lapsed := !note.Until.After(time.Now())
	if req.Keep == 0 { // else what it keeps would be undone, too
		b.giveUp(req.Name, owner)
	}
	res, err := lock.Await(b.ctx, b.store.StartRelease, r)
	err = doubtful(res, err, lapsed)
	if err == nil {
		b.changed(req.Name)
	}
	switch {
	case errors.Is(err, lock.ErrKindMismatch) && hidesFrom(req.Identity, req.Name): // what there is instead is hidden
		err = lock.ErrNotHeld
	case err != nil:
	case res.Left == 0:
		b.Notes.Remove(req.Name, owner)
		b.releasedOnce(r, note)
		if price := b.priceOfEnd(req.Name, req.Tenant); price > 0 {
			b.tenants.Spend(req.Tenant, price)
		}
	default:
		b.Notes.Change(req.Name, owner, func(n *inspect.Note) { n.Info.Permits = res.Left })
	}
	return res.Left, goesOn(err)
}

// A unary caller that chose its lease id may repeat its request with it: after a lost answer, or while the first call
// is still under way. What it may have been given is therefore not taken back, because it could be what the repetition
// was told. In exchange it is told "no" only if it surely has nothing. Else the outcome is unknown: it repeats, or
// releases. shard.repeated has all such requests that wait, or have an attempt under way.

// repeats says whether what a request may have been given is left to a repetition.
func (w *waiter) repeats() bool { return w.ownID && !w.gaveUp }

// giveUp notes that an owner is about to release: what requests that it made before take from now on is undone once
// they are answered. The Store may make their calls again behind the release.
func (b *Broker) giveUp(name string, owner lock.Owner) {
	h := b.shardOf(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.repeated[owner] {
		w.gaveUp = true
	}
}

// mayHaveLocked says whether the owner of such a request may have the lock: it must not be told "no".
func (w *waiter) mayHaveLocked() bool {
	return w.mayHave || slices.ContainsFunc(w.shard.repeated[w.Claim.Owner], func(o *waiter) bool { return o.Asking() })
}

// overLocked forgets such a request.
func (w *waiter) overLocked() {
	all, owner := w.shard.repeated, w.Claim.Owner
	all[owner] = slices.DeleteFunc(all[owner], func(o *waiter) bool { return o == w })
	if len(all[owner]) == 0 {
		delete(all, owner)
	}
}

// noteOutcomeLocked notes whether a waiter may have something after a call. given says that the call gave it something
// too late, or may have handed it the name: the Store itself undoes what an attempt of unknown outcome took for a
// session, but not that. A call that surely did nothing says nothing of those before it. That one of several names is
// held says nothing of the others.
func (b *Broker) noteOutcomeLocked(w *waiter, err error, given bool) {
	switch {
	case errors.Is(err, lock.ErrOutcomeUnknown):
		w.mayHave = w.mayHave || given || w.sess == nil
	case err == nil || w.all == nil && errors.Is(err, lock.ErrHeld):
		w.mayHave = false
	}
}

// tryRepetitionLocked has the store asked at once for another request with the same lease id: it may have the lock.
func (b *Broker) tryRepetitionLocked(w *waiter) {
	all := slices.DeleteFunc(slices.Clone(w.shard.repeated[w.Claim.Owner]), func(o *waiter) bool {
		return o == w || o.Claim.Name != w.Claim.Name
	})
	for _, o := range all {
		o.mayHave = true
	}
	for _, o := range all {
		if o.Lined() {
			o.q.TryNext(&o.Waiter)
			b.driveLocked(o.q)
			return
		}
	}
}
