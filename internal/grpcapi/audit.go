package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/grpc"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/deadlock"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/security"
	"github.com/lockd-io/lockd/internal/session"
)

// resultOK is the result of what did not fail.
const resultOK = "OK"

// reasonOf is the reason that clients are told for an error; resultOK for nil.
func reasonOf(err error) string {
	if err == nil {
		return resultOK
	}
	if reason := toFailure(err).GetReason(); reason != "" {
		return reason
	}
	return "INTERNAL"
}

// audit writes an event to the audit, with the caller's identity and address.
func (w *caller) audit(e security.Event) {
	e.Identity, e.Peer = w.id, w.peer
	w.guard.Audit(e)
}

// unknown is the audit event of a caller who could not be identified.
func unknown(ctx context.Context, err error) security.Event {
	e := security.Event{
		What: security.EventUnauthenticated, Peer: peerOf(ctx), Result: reasonOf(toUnauthenticated(err)), Detail: err.Error(),
	}
	e.Verb, _ = grpc.Method(ctx)
	if why, ok := errors.AsType[*security.UnauthenticatedError](err); ok {
		e.By = why.By
	}
	return e
}

// auditEnd writes that a stream ended because its client's credentials count no more.
func (c *conn) auditEnd(cause error) {
	if c.who != nil && errors.Is(cause, session.ErrUnauthenticated) {
		verb, _ := grpc.Method(c.stream.Context())
		c.who.audit(security.Event{
			What: security.EventUnauthenticated, Verb: verb, Session: c.sess.ID(), Result: reasonOf(cause),
			Detail: cause.Error(),
		})
	}
}

// auditCall writes the audit event of a unary call, if there is one for it.
func (w *caller) auditCall(method string, req any, err error) {
	if w == nil {
		return
	}
	e := w.did
	e.Verb = method
	if err != nil || e.Result == "" {
		e.Result = reasonOf(err)
	}
	if named, ok := req.(interface{ GetName() string }); ok {
		e.Name = named.GetName()
	}
	switch req.(type) {
	case *lockdv1.ForceReleaseRequest:
		e.What = security.EventForced
	case *lockdv1.SetLimitRequest, *lockdv1.RemoveLimitRequest, *lockdv1.AdoptLimitRequest:
		e.What = security.EventLimitChanged
	case *lockdv1.EndSessionRequest:
		e.What = security.EventSessionEnded
	case *lockdv1.DrainRequest, *lockdv1.UndrainRequest:
		e.What = security.EventDrained
	}
	switch {
	case errors.Is(err, session.ErrForbidden):
		e.What, e.Detail = security.EventDenied, err.Error() // nothing was done: e.Detail is empty
	case errors.Is(err, session.ErrUnauthenticated): // the credentials ceased to count during the call
		e.What = security.EventUnauthenticated
	}
	if e.What != "" {
		w.audit(e)
	}
}

// endedSession notes for the audit which session was to end, by whom and why in the caller's words, whose session it
// was, and whether it is over.
func (w *caller) endedSession(id string, f session.Forced, e inspect.Ended) {
	if w == nil {
		return
	}
	w.did.Session = id
	w.did.Detail = fmt.Sprintf("reason %q, by %q", f.Why, f.By)
	if was := e.Was; was != nil {
		w.did.Detail += fmt.Sprintf("; it was of %q named %q at %q, with %d locks",
			was.Client.Identity, was.Client.Name, was.Client.Peer, was.Locks)
	}
	switch {
	case e.Ended:
	case e.Answered < e.Asked:
		w.did.Result = reasonOf(lock.ErrOutcomeUnknown)
	default:
		w.did.Result = reasonOf(session.ErrSessionExpired)
	}
}

// forced notes for the audit a release by force: by whom and why in the caller's words, and who held the name.
func (w *caller) forced(f session.Forced, k lock.Kind, holders []inspect.Holder, released bool) {
	if w == nil {
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "kind %s, reason %q, by %q", k, f.Why, f.By)
	for _, h := range holders {
		fmt.Fprintf(&text, "; held by %s", h.Owner)
		if h.Client.Identity != "" {
			fmt.Fprintf(&text, " of %q", h.Client.Identity)
		}
		fmt.Fprintf(&text, " named %q at %q, kind %s, fence %d", h.Client.Name, h.Client.Peer, h.Kind, h.Fence)
		w.did.Fence = max(w.did.Fence, uint64(h.Fence))
	}
	w.did.Detail = text.String()
	if !released {
		w.did.Result = reasonOf(lock.ErrNotHeld)
	}
}

// Told implements session.Identity: it writes to the audit what concerns the client's rights.
func (w *caller) Told(sess string, event session.Event) {
	switch e := event.(type) {
	case session.Failed:
		if denied, ok := errors.AsType[*session.ForbiddenError](e.Err); ok {
			w.audit(security.Event{
				What: security.EventDenied, Verb: denied.Right, Name: denied.Name, Request: e.ID, Session: sess,
				Result: reasonOf(e.Err), Detail: denied.Detail,
			})
		}
	case session.Lost:
		if e.Reason == lock.LostForbidden {
			w.audit(security.Event{
				What: security.EventRevoked, Verb: security.RightLock, Name: e.Hold.Name, Fence: uint64(e.Hold.Fence),
				Session: sess, Result: resultOK,
			})
		}
	case session.LimitSet:
		w.audit(security.Event{
			What: security.EventLimitChanged, Verb: "set_limit", Name: e.Name, Request: e.ID, Session: sess, Result: resultOK,
		})
	}
}

// hideFrom hides in deadlocks among the events what the client may not look at.
func (c *conn) hideFrom(events []session.Event) {
	if c.who == nil {
		return
	}
	for i, event := range events {
		e, failed := event.(session.Failed)
		if circle, ok := errors.AsType[*deadlock.Error](e.Err); failed && ok {
			e.Err = &deadlock.Error{Deadlock: c.who.hide(circle.Deadlock)}
			events[i] = e
		}
	}
}

// hide returns a deadlock with what the caller may look at. It adds the other members to Omitted.
func (w *caller) hide(d deadlock.Deadlock) deadlock.Deadlock {
	shown := deadlock.Deadlock{Omitted: d.Omitted}
	for _, m := range d.Members {
		if w.sees(m.Want.Name) {
			shown.Members = append(shown.Members, m)
		} else {
			shown.Omitted++
		}
	}
	return shown
}

// WhoAmI tells who the caller is, its rights and its quotas.
func (h *inspectService) WhoAmI(ctx context.Context, _ *lockdv1.WhoAmIRequest) (*lockdv1.WhoAmIResponse, error) {
	resp := &lockdv1.WhoAmIResponse{Replica: h.b.Replica(), Peer: peerOf(ctx)}
	who := callerOf(ctx)
	if who == nil {
		return resp, nil
	}
	rights := who.id.Client.Rights()
	resp.Client, resp.Credential, resp.ExpiresIn = who.Client(), who.id.By, leftUntil(who.id.Expires)
	resp.Lock, resp.Look, resp.Deny = rights.Lock, rights.Look, rights.Deny
	for _, a := range rights.Acts {
		resp.Admin = append(resp.Admin, string(a))
	}
	for _, u := range h.b.Tenants().Usages(who.tenant(ctx)) {
		if u.Limit > 0 {
			resp.Quotas = append(resp.Quotas, &lockdv1.QuotaUse{
				Subject: u.Subject, Limit: count(u.Limit), Used: count(u.Used),
			})
		}
	}
	return resp, nil
}

// Can tells whether the caller may do something.
func (h *inspectService) Can(ctx context.Context, r *lockdv1.CanRequest) (*lockdv1.CanResponse, error) {
	who, name := callerOf(ctx), r.GetName()
	act := security.Act(r.GetVerb())
	needsName := r.GetVerb() == security.RightLock || r.GetVerb() == security.RightLook
	if needsName || name != "" {
		if err := h.b.CheckName(name); err != nil {
			return nil, err
		}
	}
	var err error
	switch r.GetVerb() {
	case security.RightLock, security.RightLook:
		if who != nil && r.GetVerb() == security.RightLock {
			err = who.MayLock(name)
		} else {
			err = who.MayLook(name)
		}
	case string(security.ActForce), string(security.ActLimit), string(security.ActDrain), string(security.ActExamine):
		switch {
		case who == nil && !h.operators:
			err = session.ErrAdminOnly
		case who == nil:
		case name != "":
			err = forbidden(who.id.Client.MayTo(act, name))
		default:
			err = forbidden(who.id.Client.May(act))
		}
	default:
		return nil, lock.Invalid("verb", lock.ReasonMessage, "must be lock, look, force, limit, drain or examine")
	}
	resp := &lockdv1.CanResponse{Allowed: err == nil}
	if err != nil {
		resp.Failure = toFailure(err)
	}
	return resp, nil
}
