package broker

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"regexp"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// OnceRequest asks for a fixed lease without a session.
type OnceRequest struct {
	Name       string
	Kind       lock.Kind
	Permits    uint32         // of a semaphore; 0 is 1
	Limit      uint32         // of a semaphore; 0 is whatever was set
	Wait       *time.Duration // nil or 0: try once
	Lease      time.Duration
	LeaseID    string // chosen by a caller that wants to repeat safely; empty: the broker chooses
	Client     string
	Peer       string // where the call comes from, for people
	Annotation string
}

// OnceLease is a lease that belongs to whoever knows its id. Any replica can extend and release it.
type OnceLease struct {
	Name     string
	LeaseID  string
	Fence    lock.Fence
	ValidFor time.Duration
}

type onceAnswer struct {
	fence   lock.Fence
	until   time.Time
	refused Event // NotGranted or Failed
}

var leaseIDs = regexp.MustCompile(`^[A-Za-z0-9_-]{22,64}$`)

// onceOwner is the owner of a unary lease. It can be shown to anybody: the lease id cannot be found from it.
func onceOwner(leaseID string) lock.Owner {
	sum := sha256.Sum256([]byte("lockd unary lease " + leaseID))
	return lock.Owner(formatID([16]byte(sum[:16])) + unarySuffix)
}

// AcquireOnce takes a lock for a fixed time. It returns NotGranted if it is not granted. When ctx ends the request is
// taken back; what it took in that moment is released, unless the caller chose the lease id and can do so itself.
func (b *Broker) AcquireOnce(ctx context.Context, req OnceRequest) (OnceLease, *NotGranted, error) {
	ownID := req.LeaseID != ""
	if err := b.checkOnce(&req); err != nil {
		return OnceLease{}, nil, err
	}
	answers := make(chan onceAnswer, 1)
	w := &waiter{
		claim: lock.Claim{
			Name: req.Name, Kind: req.Kind, Owner: onceOwner(req.LeaseID), Count: 1, TTL: req.Lease,
			Permits: permitsOf(req.Kind, req.Permits), Limit: req.Limit,
		},
		lease: req.Lease, annotation: req.Annotation,
		client: req.Client, peer: req.Peer, ownID: ownID,
		once: func(a onceAnswer) { answers <- a },
	}
	if lease, held, err := b.againOnce(ctx, w, req); held || err != nil {
		if held {
			b.noteOnce(w, lease)
		}
		return lease, nil, err
	}
	if err := b.joinOnce(w, req); err != nil {
		return OnceLease{}, nil, err
	}
	var a onceAnswer
	select {
	case a = <-answers:
	case <-ctx.Done():
		b.withdraw(w, ErrCancelled)
		a = <-answers
	}
	if a.refused == nil && ctx.Err() != nil && !ownID { // granted at this moment, to a caller that is gone
		b.undoLater(w)
		a.refused = NotGranted{Cause: ErrCancelled}
	}
	switch refused := a.refused.(type) {
	case NotGranted:
		return OnceLease{}, &refused, nil
	case Failed:
		return OnceLease{}, nil, refused.Err
	}
	lease := OnceLease{Name: req.Name, LeaseID: req.LeaseID, Fence: a.fence, ValidFor: time.Until(a.until)}
	b.noteOnce(w, lease)
	return lease, nil, nil
}

// noteOnce remembers a unary lease for people who look.
func (b *Broker) noteOnce(w *waiter, l OnceLease) {
	now := time.Now()
	b.notes.add(&note{name: l.Name, until: now.Add(l.ValidFor), info: HolderInfo{
		Owner: w.claim.Owner, Origin: OriginUnary, Kind: w.claim.Kind, Client: Client{Name: w.client, Peer: w.peer},
		Replica: b.cfg.Replica, Fence: l.Fence, Count: 1, Permits: w.claim.Permits, Annotation: w.annotation, since: now,
	}})
}

// againOnce finds the lease of a caller that repeats its request while others wait for the name: it must not queue
// behind those who wait for itself. While the store does not say whether the lease is there the answer is an error, and
// never that it is not.
func (b *Broker) againOnce(ctx context.Context, w *waiter, req OnceRequest) (lease OnceLease, held bool, err error) {
	if !w.ownID || !b.awaited(req.Name) {
		return OnceLease{}, false, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.cfg.AnswerTime, lock.ErrOutcomeUnknown)
	defer cancel()
	own := lock.Renewal{Name: req.Name, Kind: req.Kind, Owner: w.claim.Owner, Permits: w.claim.Permits}
	if _, err := b.store.Extend(ctx, own); err != nil {
		return OnceLease{}, false, unlessGone(err)
	}
	a := attempt{claim: w.claim}
	for range 2 {
		a.start = time.Now()
		var g lock.Grant
		g, a.err = b.store.Acquire(ctx, a.claim)
		a.grants = []lock.Grant{g}
		if a = judge(a); !errors.Is(a.err, lock.ErrOutcomeUnknown) {
			break
		}
	}
	if a.err != nil {
		return OnceLease{}, false, unlessGone(a.err)
	}
	lease = OnceLease{Name: req.Name, LeaseID: req.LeaseID, Fence: a.fence(), ValidFor: time.Until(a.until())}
	return lease, true, nil
}

// unlessGone is nil for an error that says that a lease is not there.
func unlessGone(err error) error {
	if errors.Is(err, lock.ErrNotHeld) || errors.Is(err, lock.ErrHeld) {
		return nil
	}
	return err
}

// awaited says whether somebody here waits for a name, or has it for itself alone.
func (b *Broker) awaited(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.queues[name]
	return q != nil && (q.waiters.len() > 0 || q.holder != nil)
}

func (b *Broker) joinOnce(w *waiter, req OnceRequest) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.draining || b.closed {
		return ErrDraining
	}
	w.waitFor(req.Wait)
	w.q = b.queueLocked(req.Name)
	defer b.dropIdleLocked(w.q)
	return b.enterLocked(w)
}

// checkOnce validates a OnceRequest and fills in what may be left out.
func (b *Broker) checkOnce(req *OnceRequest) error {
	if req.Wait == nil {
		req.Wait = new(time.Duration)
	}
	if req.LeaseID == "" {
		req.LeaseID = rand.Text()
	}
	err := b.checkAcquire(AcquireRequest{
		Name: req.Name, Kind: req.Kind, Permits: req.Permits, Limit: req.Limit,
		Wait: req.Wait, Lease: &req.Lease, Annotation: req.Annotation,
	})
	if err == nil {
		err = checkText("client_name", lock.ReasonClient, req.Client, clientNameBytes)
	}
	if err == nil {
		err = checkLeaseID(req.LeaseID)
	}
	return err
}

// OnceExtension asks that a unary lease lasts until another time.
type OnceExtension struct {
	Name       string
	Kind       lock.Kind
	LeaseID    string
	Lease      time.Duration // from now
	MayShorten bool          // else a longer remaining time is kept
}

// ExtendOnce has a unary lease end so long from now. ErrNotHeld: it has ended. ErrOutcomeUnknown: repeat it; until that is
// answered the earlier end counts.
func (b *Broker) ExtendOnce(req OnceExtension) (OnceLease, error) {
	name, k, leaseID, d := req.Name, req.Kind, req.LeaseID, req.Lease
	err := b.checkNameKind(name, k)
	if err == nil {
		err = b.checkLease(&d)
	}
	if err == nil {
		err = checkLeaseID(leaseID)
	}
	if err != nil {
		return OnceLease{}, err
	}
	until, err := b.extendOne(lock.Renewal{Name: name, Kind: k, Owner: onceOwner(leaseID), TTL: d}, req.MayShorten)
	if err != nil {
		return OnceLease{}, err
	}
	lease := OnceLease{Name: name, LeaseID: leaseID}
	b.notes.extended(name, onceOwner(leaseID), until)
	if k.Shared() { // nobody keeps which of several fences is its own
		lease.ValidFor = time.Until(until)
		return lease, nil
	}
	st, err := b.store.Look(b.ctx, name)
	if err == nil && st.Owner != onceOwner(leaseID) {
		err = lock.ErrNotHeld // it was given back at the same time
	}
	if err != nil {
		return OnceLease{}, err
	}
	lease.Fence, lease.ValidFor = st.Fence, time.Until(until)
	return lease, nil
}

// ReleaseOnce gives a unary lease back, or the permits of one that it does not keep, and returns how many are left.
// ErrNotHeld: it had ended. ErrOutcomeUnknown: repeat it.
func (b *Broker) ReleaseOnce(name string, k lock.Kind, leaseID string, keep uint32) (left uint32, err error) {
	err = b.checkNameKind(name, k)
	if err == nil {
		err = checkLeaseID(leaseID)
	}
	if err == nil {
		err = checkKeep(k, keep)
	}
	if err != nil {
		return 0, err
	}
	h := &handover{r: lock.Return{Name: name, Kind: k, Owner: onceOwner(leaseID), Remaining: keep}}
	b.makeReturn(h)
	if h.err == nil && h.res.Left == 0 {
		b.notes.remove(name, onceOwner(leaseID))
	}
	return h.res.Left, h.err
}

func checkLeaseID(id string) error {
	if !leaseIDs.MatchString(id) {
		return &lock.InvalidError{
			Field: "lease_id", Reason: lock.ReasonLeaseID,
			Detail: "must be 22 to 64 letters, digits, '-' or '_', with at least 128 random bits",
		}
	}
	return nil
}
