package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/watching"
)

// do makes a call of a scenario.
func (p *player) do(s *Store, who, what string, words []string) (r result) {
	ctx, c := p.Context(), p.claim(who, words)
	renewal := lock.Renewal{
		Name: "n", Kind: c.Kind, Owner: c.Owner, Fence: p.told["n "+who].Fence, TTL: c.TTL, Seen: time.Now(),
	}
	if c.Owner.Repeats() {
		renewal.Fence = 0
	}
	if slices.Contains(words, "unseen") {
		renewal.Seen = time.Time{}
	}
	var err error
	switch what {
	case "takes":
		gs := make([]lock.Grant, 1)
		switch other := c; {
		case slices.Contains(words, "together"):
			gs, err = s.AcquireAll(ctx, []lock.Claim{c})
		case slices.Contains(words, "with"):
			other.Name = after(words, "with")
			if gs, err = s.AcquireAll(ctx, []lock.Claim{c, other}); err == nil {
				other.Fence = gs[1].Fence
				p.told[other.Name+" "+who] = other
			}
		default:
			gs[0], err = lock.Await(ctx, s.StartAcquire, c)
		}
		if err == nil {
			r.fence = gs[0].Fence
		}
	case "releases":
		var res lock.Returned
		res, err = lock.Await(ctx, s.StartRelease, p.back(who, words))
		if r.fence = res.HandedOver; r.fence != 0 {
			r.word = "handed"
		}
	case "renews":
		var rs []lock.Renewal
		for o := range strings.SplitSeq(who, ",") {
			r := renewal
			told := p.told["n "+o]
			r.Owner, r.Kind, r.Fence = owner(o), cmp.Or(told.Kind, r.Kind), told.Fence
			rs = append(rs, r)
		}
		errs := make([]error, len(rs))
		s.Renew(ctx, rs, func(i int, e error) { errs[i] = e })
		err = cmp.Or(errs...)
	case "extends", "shortens":
		if renewal.Owner.Repeats() { // as a broker does
			if renewal.Fence, err = s.Raise(ctx, lock.Claim{Name: c.Name, Kind: c.Kind, Owner: c.Owner}); err != nil {
				break
			}
		}
		if what == "extends" {
			r.retry, err = lock.Await(ctx, s.StartExtend, renewal)
		} else {
			err = s.Shorten(ctx, renewal)
		}
	case "raises":
		r.fence, err = s.Raise(ctx, c)
	case "forces":
		var held bool
		if held, err = s.ForceRelease(ctx, "n", c.Kind); err == nil && !held {
			r.word = "free"
		}
	case "probes":
		var identity string
		if identity, err = s.Probe(ctx); err == nil {
			_, err = fmt.Sscanf(identity, "majority %d", &r.count)
		}
	case "sees":
		var st lock.Seen
		if st, err = s.See(ctx, "n"); len(st.Holds) == 0 {
			r.word = "free"
		} else if st.Holds[0].Few {
			r.word = "few"
		}
	case "counts":
		var hs []lock.Holder
		hs, err = s.Holders(ctx, "n", lock.MaxSeen)
		r.count = uint32(len(hs)) //nolint:gosec // few
	case "opens":
		err = s.TakeSession(ctx, record(who, words), time.Minute)
	case "keeps":
		told := make(chan error, 1)
		k := lock.SessionKeep{SessionRecord: record(who, words), TTL: time.Minute, Again: slices.Contains(words, "again")}
		s.StartKeepSession(k, func(err error) { told <- err })
		err = <-told
	case "closes":
		err = s.EndSession(ctx, sessionID, record(who, words).Epoch)
	case "looks":
		var st lock.State
		st, err = s.Look(ctx, c.Name)
		r = result{by: st.Owner, fence: st.Fence, count: st.Count, retry: st.TTL}
		if !st.Held {
			r.word = "free"
		}
	default:
		p.wrong("nobody knows %s", what)
	}
	if held, is := errors.AsType[*lock.HeldError](err); is {
		r.by, r.retry = held.HeldBy, held.RetryAfter
	}
	if err != nil || r.word == "" {
		r.word = word(err)
	}
	return r
}

// word is that for an error.
func word(err error) string {
	gone, isGone := errors.AsType[*lock.GoneError](err)
	switch {
	case err == nil:
		return "ok"
	case isGone && gone.Reason == lock.LostData:
		return "lost"
	case isGone:
		return "forced"
	}
	for _, e := range []struct {
		is   error
		word string
	}{
		{lock.ErrHeld, "held"},
		{lock.ErrOver, "over"},
		{lock.ErrNotHeld, "notheld"},
		{lock.ErrStale, "stale"},
		{lock.ErrStoreFull, "full"},
		{lock.ErrKindMismatch, "mismatched"},
		{lock.ErrNoQuorum, "noquorum"},
		{lock.ErrOutcomeUnknown, "unknown"},
		{lock.ErrUnavailable, "unavailable"},
	} {
		if errors.Is(err, e.is) {
			return e.word
		}
	}
	return err.Error()
}

const sessionID = "8d5e6cbe-5c1a-4f1e-9a5b-0d3b3f0b6a11"

// record is that of the session as a replica has it.
func record(replica string, words []string) lock.SessionRecord {
	epoch, _ := strconv.ParseUint(after(words, "epoch"), 10, 64)
	return lock.SessionRecord{ID: sessionID, Epoch: epoch, Nonce: replica, TokenHash: "hash", Replica: replica}
}

// noticed are the words for what members tell, and ends those for why a hold ended.
var (
	noticed = map[string]lock.What{
		"listening": lock.NoticeListening, "deaf": lock.NoticeDeaf, "released": lock.NoticeReleased,
		"flushed": lock.NoticeFlushed,
	}
	ends = [...]string{
		lock.EndUnknown: "unknown", lock.EndReleased: "released", lock.EndHandedOver: "handed", lock.EndExpired: "expired",
		lock.EndForced: "forced", lock.EndDataLoss: "lost",
	}
)

// ear is what somebody hears who listens or watches.
type ear struct {
	mu  sync.Mutex // guards the field below
	all []heard
}

type heard struct {
	what  string
	fence lock.Fence
}

func (e *ear) hears(what string, f lock.Fence) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, heard{what, f})
}

func (e *ear) noticed(n lock.Notice) {
	for word, what := range noticed {
		if what == n.What {
			e.hears(word, 0)
		}
	}
}

// Tenant and Watching implement watching.Watcher, with Unlocked.
func (*ear) Tenant() lock.Tenant { return "" }
func (*ear) Watching(uint64)     {}

// Unlocked implements watching.Watcher.
func (e *ear) Unlocked(_ string, end watching.End) { e.hears(ends[end.Cause], end.Fence) }

func (p *player) ear(who string) *ear {
	p.ears[who] = &ear{}
	return p.ears[who]
}

// hub is that of a replica at which somebody watches.
func (p *player) hub(s *Store) *watching.Hub {
	if p.hubs[s] == nil {
		p.hubs[s] = watching.New(s)
		p.Cleanup(p.hubs[s].Close)
	}
	return p.hubs[s]
}

// heard compares what somebody heard since the last time. What follows "repeated" may have come several times.
func (p *player) heard(e *ear, want []string) {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	got := []string{}
	for _, h := range e.all {
		if h.fence != 0 {
			h.what += ":" + p.given[h.fence]
		}
		got = append(got, h.what)
	}
	e.all = nil
	if want[0] == "repeated" {
		want, got = want[1:], slices.Compact(got)
	}
	if strings.Join(got, " ") != strings.Trim(strings.Join(want, " "), "-") {
		p.wrong("it was %q", got)
	}
}
