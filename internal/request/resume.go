package request

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/session"
)

const (
	// maxEpoch is the bound below which numbers are exact in the store's scripts.
	maxEpoch = 1 << 53
	// unheard is how many times the locks that a session may hold a resume may name: it also names locks whose release was
	// not answered yet when others were granted in their place.
	unheard = 2
)

// idForm is that of the ids of sessions.
var idForm = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`)

// Resume checks a request to go on with a session, and fills in what may be left out.
func (r Rules) Resume(req *session.ResumeRequest) error {
	if err := r.Open(&req.OpenRequest); err != nil {
		return err
	}
	mostWeight := unheard * session.MostWeight(req.TTL)
	most := min(unheard*r.Limits.LocksPerSession, mostWeight)
	switch {
	case !idForm.MatchString(req.ID), req.Token == "", len(req.Token) > 256:
		return session.ErrSessionExpired
	case req.Epoch < 2 || req.Epoch >= maxEpoch:
		return lock.Invalid("resume.epoch", lock.ReasonMessage,
			"must be greater than in each stream before, which began with 1")
	case len(req.Holds) > most:
		return r.Denied("locks", most)
	}
	if err := Past("resume.age", req.Age); err != nil {
		return err
	}
	req.Age = PastOf(req.Age)
	named := make(map[session.Hold]bool, len(req.Holds))
	weight := 0
	for i := range req.Holds {
		h := &req.Holds[i]
		if err := r.checkHold(h, req.LastRequest); err != nil {
			return lock.Within(fmt.Sprintf("resume.holds[%d]", i), err)
		}
		key := session.Hold{Name: h.Hold.Name, Kind: h.Hold.Kind, Holder: h.Hold.Holder}
		if named[key] {
			return lock.Within(fmt.Sprintf("resume.holds[%d]", i), badHold("hold", "is named twice"))
		}
		named[key] = true
		weight += lock.Weight(h.Hold.Kind, h.Permits)
	}
	if weight > mostWeight {
		return r.Denied("locks", mostWeight)
	}
	return nil
}

func badHold(field, what string) error {
	return lock.Invalid(field, lock.ReasonMessage, what)
}

// checkHold checks a hold that a resume names, and fills in what may be left out. Errors have the fields of a HeldLock.
func (r Rules) checkHold(h *session.HeldLock, last uint64) error {
	if err := r.NameKind(h.Hold.Name, h.Hold.Kind); err != nil {
		return lock.Within("hold", err)
	}
	own := "#" + strconv.FormatUint(h.Hold.AcquiredBy, 10)
	switch {
	case h.Hold.Fence == 0:
		return badHold("hold.fence", "must be told as in Granted")
	case h.Hold.AcquiredBy == 0 || h.Hold.AcquiredBy > last:
		return badHold("hold.acquired_by", "must be told as in Granted, and not be greater than last_request_id")
	case strings.HasPrefix(h.Hold.Holder, "#") && h.Hold.Holder != own:
		return badHold("hold.holder", "differs from acquired_by")
	case h.Count > lock.MaxHolds:
		return badHold("hold_count", "is more than anybody can hold")
	case h.Permits > lock.MaxPermits:
		return badHold("permits", "is more than anybody can hold")
	}
	if !strings.HasPrefix(h.Hold.Holder, "#") {
		if err := r.Holder(h.Hold.Holder); err != nil {
			return lock.Within("hold", err)
		}
	}
	if h.MaxHold != nil && *h.MaxHold < 0 {
		return lock.Invalid("max_hold", lock.ReasonDuration, "must not be negative")
	}
	if err := cmp.Or(Past("age", h.Age), r.Annotation(h.Annotation)); err != nil {
		return err
	}
	h.Count = max(h.Count, 1)
	h.Permits = PermitsOf(h.Hold.Kind, h.Permits)
	return nil
}
