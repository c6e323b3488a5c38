package broker

import (
	"math"
	"strconv"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// checkAcquire validates an AcquireRequest.
func (b *Broker) checkAcquire(req AcquireRequest) error {
	limits := b.cfg.Limits
	if err := b.checkItems(req); err != nil {
		return err
	}
	if err := checkHolder(req.Holder, limits.HolderBytes); err != nil {
		return err
	}
	if err := checkText("annotation", lock.ReasonAnnotation, req.Annotation, limits.AnnotationBytes); err != nil {
		return err
	}
	if req.Wait != nil {
		if err := checkDuration("wait", *req.Wait, 0, limits.MaxWait); err != nil {
			return err
		}
	}
	return b.checkLease(req.Lease)
}

// checkName says whether a name can be that of a lock.
func (b *Broker) checkName(name string) error {
	if err := checkName(name, b.cfg.Limits.NameBytes); err != nil {
		return err
	}
	return b.checkReserved(name)
}

func (b *Broker) checkNameKind(name string, k lock.Kind) error {
	if err := b.checkName(name); err != nil {
		return err
	}
	if k < lock.Exclusive || k > lock.Semaphore {
		return &lock.InvalidError{Field: "kind", Reason: lock.ReasonKind, Detail: "no such kind of lock"}
	}
	return nil
}

const (
	// maxLimit bounds the permits of a semaphore: Redisson counts them with 32 bits.
	maxLimit = math.MaxInt32
)

// checkItem validates one of the locks of a request.
func (b *Broker) checkItem(i Item) error {
	if err := b.checkNameKind(i.Name, i.Kind); err != nil {
		return err
	}
	bad := func(detail string) error {
		return &lock.InvalidError{Field: "permits", Reason: lock.ReasonPermits, Detail: detail}
	}
	switch {
	case i.Kind != lock.Semaphore && (i.Permits > 0 || i.Limit > 0):
		return bad("only a semaphore has permits and a limit")
	case i.Permits > lock.MaxPermits:
		return bad("one request can have at most " + strconv.Itoa(lock.MaxPermits) + " permits")
	case i.Limit > maxLimit:
		return bad("a semaphore can have at most " + strconv.Itoa(maxLimit) + " permits")
	case i.Limit > 0 && i.Permits > i.Limit:
		return bad("more permits than the limit can never be had")
	}
	return nil
}

// checkItems validates what a request asks for.
func (b *Broker) checkItems(req AcquireRequest) error {
	first := Item{req.Name, req.Kind, req.Permits, req.Limit}
	if err := b.checkHeldItem(first, req.Holder); err != nil || len(req.More) == 0 {
		return err
	}
	if most := b.cfg.Limits.NamesPerAcquire; len(req.More) >= most {
		return b.metrics.denied("names", most)
	}
	permits := permitsOf(first.Kind, first.Permits)
	seen := map[string]bool{req.Name: true}
	for _, i := range req.More {
		if err := b.checkHeldItem(i, req.Holder); err != nil {
			return err
		}
		if seen[i.Name] {
			return &lock.InvalidError{Field: "items", Reason: lock.ReasonName, Detail: "a name comes twice"}
		}
		seen[i.Name] = true
		permits += permitsOf(i.Kind, i.Permits)
	}
	if permits > lock.MaxPermits {
		return b.metrics.denied("permits", lock.MaxPermits)
	}
	return nil
}

// checkHeldItem is checkItem for a named holder.
func (b *Broker) checkHeldItem(i Item, holder string) error {
	if i.Kind == lock.Semaphore && holder != "" {
		return &lock.InvalidError{Field: "holder", Reason: lock.ReasonHolder, Detail: "a semaphore has no named holders"}
	}
	return b.checkItem(i)
}

// checkLease validates the time of a fixed lease; nil is an auto lease.
func (b *Broker) checkLease(lease *time.Duration) error {
	if lease == nil {
		return nil
	}
	return checkDuration("lease", *lease, b.cfg.Limits.MinLease, b.cfg.Limits.MaxLease)
}

func checkDuration(field string, d, least, most time.Duration) error {
	if d < least || d > most {
		return &lock.InvalidError{
			Field: field, Reason: lock.ReasonDuration,
			Detail: "must be between " + least.String() + " and " + most.String(),
		}
	}
	return nil
}
