package broker

import "time"

// checkAcquire validates an AcquireRequest.
func (b *Broker) checkAcquire(req AcquireRequest) error {
	limits := b.cfg.Limits
	if err := b.checkNameKind(req.Name, req.Kind); err != nil {
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

func (b *Broker) checkNameKind(name string, k Kind) error {
	if err := checkName(name, b.cfg.Limits.NameBytes); err != nil {
		return err
	}
	switch k {
	case Exclusive:
		return nil
	case Fair, Read, Write, Semaphore:
		return ErrUnsupported
	default:
		return &InvalidError{Field: "kind", Reason: ReasonKind, Detail: "no such kind of lock"}
	}
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
