package request

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"regexp"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

// Rules are what requests are checked against.
type Rules struct {
	limits.Limits
	Session limits.Session
	// KeyPrefix is what the store puts in front of each name.
	KeyPrefix string
	Denied    limits.Denied
}

// Acquire checks a request for locks.
func (r Rules) Acquire(req Acquire) error {
	return cmp.Or(
		r.items(req),
		r.Holder(req.Holder),
		checkText("actor", lock.ReasonActor, req.Actor, limits.ActorBytes),
		r.Annotation(req.Annotation),
		checkDuration("wait", req.Wait, 0, r.MaxWait),
		Past("waited", req.Waited),
		r.Lease(req.Lease),
		r.maxHold(req),
	)
}

// maxHold checks how long an auto lease is held at most.
func (r Rules) maxHold(req Acquire) error {
	if req.MaxHold != nil && req.Lease != nil {
		return lock.Invalid("max_hold", lock.ReasonDuration, "a fixed lease ends by itself")
	}
	return checkDuration("max_hold", req.MaxHold, r.MinLease, r.MaxLease)
}

// mostPast is the longest time ago that counts.
const mostPast = 365 * 24 * time.Hour

// Past checks how much time has passed elsewhere, as a client says. Nothing but what people are told depends on it.
func Past(field string, d time.Duration) error {
	if d < 0 {
		return lock.Invalid(field, lock.ReasonDuration, "must not be negative")
	}
	return nil
}

// PastOf is d, but mostPast at most.
func PastOf(d time.Duration) time.Duration { return min(d, mostPast) }

// Annotation checks a text for those who look at a lock.
func (r Rules) Annotation(text string) error {
	return checkText("annotation", lock.ReasonAnnotation, text, r.AnnotationBytes)
}

// Name says whether a name can be that of a lock. Each request that has a name is checked by it, also one that only
// asks. A name must not read as a helper key either, with the store's prefix in front of it or without: other programs
// may use the same store without the prefix.
func (r Rules) Name(name string) error {
	if err := checkName(name, r.NameBytes); err != nil {
		return err
	}
	if lock.Reserved(name) || r.KeyPrefix != "" && lock.Reserved(r.KeyPrefix+name) {
		return lock.Invalid("name", lock.ReasonReserved,
			"the name reads as a key in which the store keeps the state of another lock")
	}
	return nil
}

// NameKind checks a name and a kind.
func (r Rules) NameKind(name string, k lock.Kind) error {
	if err := r.Name(name); err != nil {
		return err
	}
	if !k.Valid() {
		return lock.Invalid("kind", lock.ReasonKind, "no such kind of lock")
	}
	return nil
}

// Forced checks what is said of a forced release.
func (r Rules) Forced(f session.Forced) error {
	return cmp.Or(checkText("by", lock.ReasonForced, f.By, limits.ByBytes),
		checkText("why", lock.ReasonForced, f.Why, limits.WhyBytes))
}

// maxLimit bounds the permits of a semaphore: Redisson counts them with 32 bits.
const maxLimit = math.MaxInt32

func (r Rules) item(i Item, holder string) error {
	if i.Kind == lock.Semaphore && holder != "" {
		return lock.Invalid("holder", lock.ReasonHolder, "a semaphore has no named holders")
	}
	if err := r.NameKind(i.Name, i.Kind); err != nil {
		return err
	}
	bad := func(detail string) error {
		return lock.Invalid("permits", lock.ReasonPermits, detail)
	}
	switch {
	case i.Kind != lock.Semaphore && (i.Permits > 0 || i.Limit > 0):
		return bad("only a semaphore has permits and a limit")
	case i.Permits > lock.MaxPermits:
		return bad(fmt.Sprintf("one request can have at most %d permits", lock.MaxPermits))
	case i.Limit > maxLimit:
		return bad(fmt.Sprintf("a semaphore can have at most %d permits", maxLimit))
	case i.Limit > 0 && i.Permits > i.Limit:
		return bad("more permits than the limit can never be had")
	}
	return nil
}

func (r Rules) items(req Acquire) error {
	first := Item{req.Name, req.Kind, req.Permits, req.Limit}
	if err := r.item(first, req.Holder); err != nil {
		return req.List.Within(0, err)
	}
	if len(req.More) == 0 {
		return nil
	}
	if most := r.NamesPerAcquire; len(req.More) >= most {
		return r.Denied("names", most)
	}
	permits := PermitsOf(first.Kind, first.Permits)
	seen := map[string]bool{req.Name: true}
	for n, i := range req.More {
		err := r.item(i, req.Holder)
		if err == nil && seen[i.Name] {
			err = lock.Invalid("name", lock.ReasonName, "comes twice")
		}
		if err != nil {
			return req.List.Within(n+1, err)
		}
		seen[i.Name] = true
		permits += PermitsOf(i.Kind, i.Permits)
	}
	if permits > lock.MaxPermits {
		return r.Denied("permits", lock.MaxPermits)
	}
	return nil
}

// Lease checks the time of a fixed lease; nil is an auto lease.
func (r Rules) Lease(lease *time.Duration) error {
	return checkDuration("lease", lease, r.MinLease, r.MaxLease)
}

// checkDuration checks a time that may be left out.
func checkDuration(field string, d *time.Duration, least, most time.Duration) error {
	if d != nil && (*d < least || *d > most) {
		return lock.Invalid(field, lock.ReasonDuration, fmt.Sprintf("must be between %v and %v", least, most))
	}
	return nil
}

var leaseIDs = regexp.MustCompile(`^[A-Za-z0-9_-]{22,64}$`)

// LeaseID checks a lease id.
func LeaseID(id string) error {
	if !leaseIDs.MatchString(id) {
		return lock.Invalid("lease_id", lock.ReasonLeaseID,
			"must be 22 to 64 letters, digits, '-' or '_', with at least 128 random bits")
	}
	return nil
}

// Once checks a request for a unary lease, and fills in what may be left out.
func (r Rules) Once(req *Once) error {
	if req.Wait == nil {
		req.Wait = new(time.Duration)
	}
	if req.LeaseID == "" {
		req.LeaseID = rand.Text()
	}
	return cmp.Or(
		r.Acquire(Acquire{
			Name: req.Name, Kind: req.Kind, Permits: req.Permits, Limit: req.Limit,
			Wait: req.Wait, Lease: &req.Lease, Annotation: req.Annotation,
		}),
		checkText("client_name", lock.ReasonClient, req.Client, limits.ClientNameBytes),
		LeaseID(req.LeaseID),
	)
}

// Keep checks how many permits are to be kept.
func Keep(k lock.Kind, keep uint32) error {
	if keep > 0 && k != lock.Semaphore {
		return lock.Invalid("keep", lock.ReasonPermits, "only a semaphore has permits")
	}
	return nil
}

// Limit checks a limit of a semaphore.
func (r Rules) Limit(req SetLimit) error {
	if err := r.Name(req.Name); err != nil {
		return err
	}
	if req.Limit == 0 || req.Limit > maxLimit {
		return lock.Invalid("limit", lock.ReasonPermits, fmt.Sprint("must be between 1 and ", maxLimit))
	}
	return nil
}

// Open checks a request to begin a session, and fills in what may be left out.
func (r Rules) Open(req *session.OpenRequest) error {
	client := req.Client
	err := errors.Join(
		checkText("client_name", lock.ReasonClient, client.Name, limits.ClientNameBytes),
		checkText("actor", lock.ReasonActor, req.Actor, limits.ActorBytes),
	)
	if len(client.Labels) > limits.Labels {
		err = errors.Join(err, lock.Invalid("labels", lock.ReasonClient, "too many"))
	}
	for k, v := range client.Labels {
		err = errors.Join(err, checkText("labels", lock.ReasonClient, k+v, limits.LabelBytes))
	}
	req.TTL = cmp.Or(req.TTL, r.Session.TTL)
	return errors.Join(err, checkDuration("session_ttl", &req.TTL, r.Session.MinTTL, r.Session.MaxTTL))
}
