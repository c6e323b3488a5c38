package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
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
	ValidFor int64  `json:"valid_for_ms"`
}

// printLease prints a lease. Its validity counts from begun; what has passed since then is taken off.
func printLease(w io.Writer, l *lockdv1.Lease, begun time.Time) error {
	left := max(l.GetValidFor().AsDuration()-time.Since(begun), 0)
	return printJSON(w, leaseView{
		Name: l.GetName(), LeaseID: l.GetLeaseId(), Fence: l.GetFence(), ValidFor: left.Milliseconds(),
	})
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
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkWait(wait); err != nil {
				return err
			}
			items, err := want.items(cmd, args[0])
			if err != nil {
				return err
			}
			req := &lockdv1.AcquireRequest{
				Name: items[0].Name, Kind: lockdv1.LockKind(items[0].Kind), Permits: items[0].Permits, Limit: items[0].Limit,
				Wait: durationpb.New(wait), Lease: durationpb.New(lease),
				LeaseId: rand.Text(), ClientName: o.client("acquire"), Annotation: annotation,
			}
			return o.call(cmd, func(ctx context.Context, s *services) error { return s.acquire(ctx, cmd.OutOrStdout(), req) })
		},
	}
	cmd.Flags().DurationVar(&wait, "wait", 0, "how long to wait for the lock")
	leaseFlag(cmd, &lease)
	want.flags(cmd)
	cmd.Flags().StringVar(&annotation, "annotation", "", "a `text` for people who look at the lock")
	return cmd
}

func (s *services) acquire(ctx context.Context, out io.Writer, req *lockdv1.AcquireRequest) error {
	wait := req.GetWait().AsDuration()
	until := time.Now().Add(wait)
	var begun time.Time
	resp, unsure, err := change(ctx, s, wait, func(ctx context.Context) (*lockdv1.AcquireResponse, error) {
		begun = time.Now()
		req.Wait = durationpb.New(max(time.Until(until), 0))
		return s.locks.Acquire(ctx, req)
	})
	if refused := resp.GetNotGranted(); err == nil && refused != nil {
		err = notGranted(req.GetName(), refused)
		if s.releaseTaken(req) != nil && unsure {
			err = mayBeHeld(req)
		}
	} else if unsure && err != nil {
		err = s.undo(req, err)
	}
	if err != nil {
		return wrap("acquire", []string{req.GetName()}, err)
	}
	if wait > 0 {
		begun = time.Now() // the server counts from when the lock was granted
	}
	return printLease(out, resp.GetGranted(), begun)
}

// releaseTime bounds releaseTaken.
const releaseTime = 2 * time.Second

// undo releases what an acquire without an answer may have taken, and returns what is true then: why it failed, if
// nothing can be held; else that the outcome is unknown.
func (s *services) undo(req *lockdv1.AcquireRequest, err error) error {
	_, interrupted := errors.AsType[signalError](err)
	switch released := s.releaseTaken(req) == nil; {
	case !released && interrupted:
		return errors.Join(err, mayBeHeld(req))
	case !released:
		return mayBeHeld(req)
	case errors.Is(err, client.ErrOutcomeUnknown):
		return fmt.Errorf("%w: the request was not answered, and what it may have taken was released", client.ErrUnavailable)
	}
	return err
}

func mayBeHeld(req *lockdv1.AcquireRequest) error {
	return fmt.Errorf("%w: the lock may be held until its lease of %s has ended", client.ErrOutcomeUnknown,
		duration(req.GetLease().AsDuration()))
}

// releaseTaken releases what an acquire that was not granted may have taken all the same: an answer may have been lost,
// and a server may have said no while an attempt was under way. Nobody else knows the lease id, so nothing
// else can be hit.
func (s *services) releaseTaken(req *lockdv1.AcquireRequest) error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTime)
	defer cancel()
	_, err := ask(ctx, s, s.locks.Release, &lockdv1.ReleaseRequest{
		Name: req.GetName(), Kind: req.GetKind(), LeaseId: req.GetLeaseId(),
	})
	if err == nil || errors.Is(err, client.ErrNotHeld) || errors.Is(err, client.ErrInvalid) ||
		errors.Is(err, client.ErrKindMismatch) {
		return nil
	}
	return err
}

func notGranted(name string, n *lockdv1.NotGranted) error {
	if n.GetCause() == lockdv1.NotGranted_CAUSE_TIMED_OUT {
		return client.ErrTimedOut
	}
	return client.HeldErrorOf(name, n)
}

func newExtend(o *options) *cobra.Command {
	var lease time.Duration
	var shorten bool
	var kind kindFlag
	cmd := &cobra.Command{
		Use:   "extend NAME LEASE_ID --lease DURATION",
		Short: "Make a lease last longer, or shorter with --shorten, and print it as JSON",
		Args:  exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.call(cmd, func(ctx context.Context, s *services) error {
				var begun time.Time
				var resp *lockdv1.ExtendResponse
				err := kind.each(func(k lockdv1.LockKind) (err error) {
					begun = time.Now()
					resp, err = certain(ctx, s, s.locks.Extend, &lockdv1.ExtendRequest{
						Name: args[0], Kind: k, LeaseId: args[1], Lease: durationpb.New(lease), MayShorten: shorten,
					})
					return err
				})
				if err != nil {
					return wrap("extend", args, err)
				}
				return printLease(cmd.OutOrStdout(), resp.GetLease(), begun)
			})
		},
	}
	leaseFlag(cmd, &lease)
	cmd.Flags().BoolVar(&shorten, "shorten", false, "let the lease end then also if it would have ended later")
	kind.optional(cmd)
	return cmd
}

// keptView is what release --keep prints.
type keptView struct {
	Name      string `json:"name"`
	Remaining uint32 `json:"remaining"` // permits of the lease
}

func newRelease(o *options) *cobra.Command {
	var kind kindFlag
	var keep uint32
	cmd := &cobra.Command{
		Use:   "release NAME LEASE_ID",
		Short: "Release a lease, or some permits of it",
		Args:  exactly(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if keep > 0 && kind != 0 && client.Kind(kind) != client.Semaphore {
				return usagef("--keep is for a semaphore, not for --kind %s", client.Kind(kind))
			}
			if keep > 0 {
				return o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
					v, err := s.keep(ctx, args[0], args[1], keep)
					return shown{json: v, text: v.text}, err
				})(cmd, args)
			}
			return o.call(cmd, func(ctx context.Context, s *services) error {
				if err := s.release(ctx, args[0], args[1], kind); err != nil {
					return wrap("release", args, err)
				}
				return nil
			})
		},
	}
	cmd.Flags().Uint32Var(&keep, "keep", 0, "of a semaphore: keep so many permits and release the others")
	kind.optional(cmd)
	return cmd
}

func (v keptView) text(p *screen) {
	are := "are"
	if v.Remaining == 1 {
		are = "is"
	}
	p.line("%s of %s %s kept", counted(v.Remaining, "permit"), v.Name, are)
}

// keep releases all permits of a lease but some. It says what stays, so it can be repeated.
func (s *services) keep(ctx context.Context, name, leaseID string, keep uint32) (keptView, error) {
	resp, err := certain(ctx, s, s.locks.Release, &lockdv1.ReleaseRequest{
		Name: name, Kind: lockdv1.LockKind_LOCK_KIND_SEMAPHORE, LeaseId: leaseID, Keep: keep,
	})
	if err == nil && resp.GetRemaining() == 0 { // of a server that cannot do that
		err = fmt.Errorf("%w: all permits were released", client.ErrUnsupported)
	}
	return keptView{Name: name, Remaining: resp.GetRemaining()}, err
}

// release ends a lease. When an answer was lost, a lease that is gone afterwards was released by that try.
func (s *services) release(ctx context.Context, name, leaseID string, kind kindFlag) error {
	unsure := false
	err := kind.each(func(k lockdv1.LockKind) error {
		_, maybe, err := change(ctx, s, 0, func(ctx context.Context) (*lockdv1.ReleaseResponse, error) {
			return s.locks.Release(ctx, &lockdv1.ReleaseRequest{Name: name, Kind: k, LeaseId: leaseID})
		})
		unsure = unsure || maybe
		return err
	})
	switch {
	case unsure && errors.Is(err, client.ErrNotHeld):
		return nil
	case unsure:
		return outcome(err)
	}
	return err
}

// checkWait refuses what the protocol refuses, too: a negative wait may be meant as none or as one for ever.
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
