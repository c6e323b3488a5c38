package broker

import (
	"math"
	"strconv"
	"time"
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
	if err := checkText("annotation", ReasonAnnotation, req.Annotation, limits.AnnotationBytes); err != nil {
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

func (b *Broker) checkNameKind(name string, k Kind) error {
	if err := b.checkName(name); err != nil {
		return err
	}
	if k < Exclusive || k > Semaphore {
		return &InvalidError{Field: "kind", Reason: ReasonKind, Detail: "no such kind of lock"}
	}
	return nil
}

const (
	// MaxPermits bounds the permits of one request, over all of its names: the script that takes them costs Redis about
	// 2 µs for each, and nobody else is served meanwhile.
	MaxPermits = 1000
	// MaxHolds bounds how often one holder holds a lock. Each read hold has a key of its own in Redis, and a script that ends
	// the hold looks at all of them.
	MaxHolds = 100
	// maxLimit bounds the permits of a semaphore: Redisson counts them with 32 bits.
	maxLimit = math.MaxInt32
)

// checkItem validates one of the locks of a request.
func (b *Broker) checkItem(i Item) error {
	if err := b.checkNameKind(i.Name, i.Kind); err != nil {
		return err
	}
	bad := func(detail string) error {
		return &InvalidError{Field: "permits", Reason: ReasonPermits, Detail: detail}
	}
	switch {
	case i.Kind != Semaphore && (i.Permits > 0 || i.Limit > 0):
		return bad("only a semaphore has permits and a limit")
	case i.Permits > MaxPermits:
		return bad("one request can have at most " + strconv.Itoa(MaxPermits) + " permits")
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
			return &InvalidError{Field: "items", Reason: ReasonName, Detail: "a name comes twice"}
		}
		seen[i.Name] = true
		permits += permitsOf(i.Kind, i.Permits)
	}
	if permits > MaxPermits {
		return b.metrics.denied("permits", MaxPermits)
	}
	return nil
}

// checkHeldItem is checkItem for a named holder.
func (b *Broker) checkHeldItem(i Item, holder string) error {
	if i.Kind == Semaphore && holder != "" {
		return &InvalidError{Field: "holder", Reason: ReasonHolder, Detail: "a semaphore has no named holders"}
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
		return &InvalidError{
			Field: field, Reason: ReasonDuration,
			Detail: "must be between " + least.String() + " and " + most.String(),
		}
	}
	return nil
}
