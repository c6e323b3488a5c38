package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

// leaseView is a lease as it is printed.
type leaseView struct {
	Name     string `json:"name"`
	LeaseID  string `json:"lease_id"`
	Fence    uint64 `json:"fence"`
	ValidFor millis `json:"valid_for_ms"`
}

// showLease shows a lease. Its validity counts from begun, so the time since then is subtracted.
func showLease(l *lockdv1.Lease, begun time.Time) shown {
	v := view[leaseView](l)
	v.ValidFor = millis(max(l.GetValidFor().AsDuration()-time.Since(begun), 0).Milliseconds())
	return shown{json: v}
}

func newAcquire(o *options) *cobra.Command {
	var wait, lease time.Duration
	var annotation string
	var want wanted
	cmd := &cobra.Command{
		Use:   "acquire NAME --lease DURATION",
		Short: "Take a lock for a fixed time and print it as JSON",
		Long: `acquire takes a lock for a fixed time and prints one JSON object with name, lease_id, fence and
valid_for_ms. The lease ends by itself; extend and release need the lease_id. Without --wait it tries once. If
the lock is not obtained the exit code is 75. A lost answer is asked for again, which cannot take the lock
twice. An acquire that fails or is interrupted releases what it may have taken, or says that it could not.`,
		Args: exactly(1),
		RunE: o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
			items, err := want.items(args[0])
			if err = cmp.Or(checkWait(wait), err); err != nil {
				return shown{}, err
			}
			return s.acquire(ctx, &lockdv1.AcquireRequest{
				Name: items[0].Name, Kind: lockdv1.LockKind(items[0].Kind), Permits: items[0].Permits, Limit: items[0].Limit,
				Wait: durationpb.New(wait), Lease: durationpb.New(lease),
				LeaseId: rand.Text(), ClientName: o.client("acquire"), Annotation: annotation,
			})
		}),
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the lock")
	leaseFlag(cmd, &lease)
	want.flags(cmd)
	cmd.Flags().StringVar(&annotation, "annotation", "", "a `text` for people who look at the lock")
	return cmd
}

func (s *services) acquire(ctx context.Context, req *lockdv1.AcquireRequest) (shown, error) {
	wait := req.GetWait().AsDuration()
	until := time.Now().Add(wait)
	var begun time.Time
	resp, unsure, err := retry(ctx, s, wait, func(ctx context.Context) (*lockdv1.AcquireResponse, error) {
		begun = time.Now()
		req.Wait = durationpb.New(max(time.Until(until), 0))
		return s.locks.Acquire(ctx, req)
	})
	if refused := resp.GetNotGranted(); err == nil && refused != nil {
		err = client.HeldErrorOf(req.GetName(), refused)
		if refused.GetCause() == lockdv1.NotGranted_CAUSE_TIMED_OUT {
			err = client.ErrTimedOut
		}
		if !s.releaseTaken(req) && unsure {
			err = mayBeHeld(req)
		}
		err = nameHolder(ctx, s.inspect, err)
	} else if unsure && err != nil {
		err = s.undo(req, err)
	}
	if wait > 0 {
		begun = time.Now() // the server counts from when the lock was granted
	}
	return showLease(resp.GetGranted(), begun), err
}

// releaseTimeout bounds the release of what is held when lockctl ends. If the release fails the lease ends by itself.
const releaseTimeout = 2 * time.Second

// undo releases what an acquire without an answer may have taken. It returns why the acquire failed, if nothing can be
// held any more; else that the outcome is unknown.
func (s *services) undo(req *lockdv1.AcquireRequest, err error) error {
	switch released := s.releaseTaken(req); {
	case !released && reason(err) == reasonInterrupted:
		return errors.Join(err, mayBeHeld(req))
	case !released:
		return mayBeHeld(req)
	case errors.Is(err, client.ErrOutcomeUnknown):
		return failure{exitUnavailable, reason(client.ErrUnavailable), errUndone}
	}
	return err
}

// errUndone is for an outcome that was unknown, and is not any more.
var errUndone = errors.New("the request was not answered in time, and what it may have taken was released")

func mayBeHeld(req *lockdv1.AcquireRequest) error {
	return fmt.Errorf("%w: the lock may be held until its lease of %s has ended", client.ErrOutcomeUnknown,
		duration(req.GetLease().AsDuration()))
}

// releaseTaken releases what an acquire that was not granted may have taken all the same: an answer may have been lost,
// or a server may have refused while an attempt was under way. It says whether surely nothing is held. No other lease
// has this lease id.
func (s *services) releaseTaken(req *lockdv1.AcquireRequest) bool {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_, err := ask(ctx, s, s.locks.Release, &lockdv1.ReleaseRequest{
		Name: req.GetName(), Kind: req.GetKind(), LeaseId: req.GetLeaseId(),
	})
	return err == nil || errors.Is(err, client.ErrNotHeld) || errors.Is(err, client.ErrInvalid) ||
		errors.Is(err, client.ErrKindMismatch)
}

func newExtend(o *options) *cobra.Command {
	var lease time.Duration
	var shorten bool
	var kind client.Kind
	cmd := &cobra.Command{
		Use:   "extend NAME LEASE_ID --lease DURATION",
		Short: "Make a lease last longer, or shorter with --shorten, and print it as JSON",
		Args:  exactly(2),
		RunE: o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
			var begun time.Time
			resp, err := ofKind(ctx, s, args[0], kind, func(k lockdv1.LockKind) (*lockdv1.ExtendResponse, error) {
				begun = time.Now()
				resp, _, err := change(ctx, s, s.locks.Extend, &lockdv1.ExtendRequest{
					Name: args[0], Kind: k, LeaseId: args[1], Lease: durationpb.New(lease), MayShorten: shorten,
				})
				return resp, err
			})
			return showLease(resp.GetLease(), begun), err
		}),
	}
	leaseFlag(cmd, &lease)
	cmd.Flags().BoolVar(&shorten, "shorten", false, "let the lease end then also if it would have ended later")
	kindFlag(cmd, &kind, foundOut)
	return cmd
}

// keptView is what release --keep prints.
type keptView struct {
	Name      string `json:"name"`
	Remaining uint32 `json:"remaining"` // permits of the lease
}

func newRelease(o *options) *cobra.Command {
	var kind client.Kind
	var keep uint32
	cmd := &cobra.Command{
		Use:   "release NAME LEASE_ID",
		Short: "Release a lease, or some permits of it",
		Args:  exactly(2),
		RunE: o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
			if keep > 0 && kind != 0 && kind != client.Semaphore {
				return shown{}, usagef("--keep is for a semaphore, not for --kind %s", kind)
			}
			left, err := s.release(ctx, args[0], args[1], kind, keep)
			if keep == 0 {
				return shown{}, err
			}
			v := keptView{Name: args[0], Remaining: left}
			return shown{json: v, text: v.text}, err
		}),
	}
	cmd.Flags().Uint32Var(&keep, "keep", 0, "of a semaphore: keep so many permits and release the others")
	kindFlag(cmd, &kind, foundOut)
	return cmd
}

func (v keptView) text(p *screen) {
	p.line("kept %s of %s", counted(v.Remaining, "permit"), v.Name)
}

// release releases a lease, or all of its permits but keep. If an answer was lost and a later try finds no lease, the
// earlier try has released it.
func (s *services) release(ctx context.Context, name, leaseID string, kind client.Kind, keep uint32) (uint32, error) {
	if keep > 0 {
		kind = client.Semaphore
	}
	resp, err := ofKind(ctx, s, name, kind, func(k lockdv1.LockKind) (*lockdv1.ReleaseResponse, error) {
		resp, unsure, err := change(ctx, s, s.locks.Release,
			&lockdv1.ReleaseRequest{Name: name, Kind: k, LeaseId: leaseID, Keep: keep})
		if unsure && keep == 0 && errors.Is(err, client.ErrNotHeld) {
			err = nil
		}
		return resp, err
	})
	return resp.GetRemaining(), err
}

// checkWait refuses a negative wait, as the protocol does: it may mean none or for ever.
func checkWait(wait time.Duration) error {
	if wait < 0 {
		return usagef("--wait must not be negative")
	}
	return nil
}

func leaseFlag(cmd *cobra.Command, lease *time.Duration) {
	cmd.Flags().DurationVar(lease, "lease", 0, "how long the lease lasts from now; required")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case !cmd.Flags().Changed("lease"):
			return usagef("--lease is missing: how long the lock is held, as in --lease 30s")
		case *lease <= 0:
			return usagef("--lease must be more than 0")
		}
		return nil
	}
}
