package grpcapi

import (
	"context"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/inbound"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/security"
	"github.com/lockd-io/lockd/internal/session"
)

// caller is who makes a call or has a stream, as an entry of the clients file. It implements session.Identity. Without
// a clients file it is nil, and may do everything.
type caller struct {
	guard *security.Guard
	id    security.Identity
	peer  string
	did   security.Event // what a unary call adds to its line of the audit
}

// authenticator says who makes a call or opens a stream.
type authenticator struct {
	guard  *security.Guard // nil if there is no clients file
	intake *inbound.Intake
}

// identify says who makes a call: nil if there is no clients file. If it refuses the caller, the address pays: its
// connections are read later.
func (a authenticator) identify(ctx context.Context) (*caller, error) {
	g := a.guard
	if g == nil {
		return nil, nil
	}
	var shown security.Credentials
	if p, ok := peer.FromContext(ctx); ok {
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok && len(info.State.VerifiedChains) > 0 {
			shown.Certificate = info.State.PeerCertificates[0]
		}
	}
	shown.Authorization = strings.Join(metadata.ValueFromIncomingContext(ctx, "authorization"), ",") // two are invalid
	id, err := g.Identify(ctx, shown)
	if err != nil {
		a.intake.Spend(limits.TenantOf(peerOf(ctx)), limits.Stranger)
		g.Audit(unknown(ctx, err))
		return nil, toUnauthenticated(err)
	}
	return &caller{guard: g, id: id, peer: peerOf(ctx)}, nil
}

// toUnauthenticated turns an error of package security into one of package session.
func toUnauthenticated(err error) error {
	if why, ok := errors.AsType[*security.UnauthenticatedError](err); ok {
		return &session.UnauthenticatedError{Reason: why.Reason, Detail: why.Error()}
	}
	return err
}

// forbidden turns an error of package security into one of package session.
func forbidden(err error) error {
	if denied, ok := errors.AsType[*security.DeniedError](err); ok {
		return &session.ForbiddenError{
			Client: denied.Client, Right: denied.Right, Name: denied.Name, Detail: denied.Error(),
		}
	}
	return err
}

// Client implements session.Identity.
func (w *caller) Client() string { return w.id.Client.Name() }

// name is the caller's name in the clients file, or empty without such a file.
func (w *caller) name() string {
	if w == nil {
		return ""
	}
	return w.Client()
}

// MayLock implements session.Identity.
func (w *caller) MayLock(name string) error { return forbidden(w.id.Client.MayLock(name)) }

// mayKeep is nil if the caller may extend its hold of a name. It always may unless on_revoke is end.
func (w *caller) mayKeep(name string) error {
	if w.guard.EndsHolds() {
		return w.MayLock(name)
	}
	return nil
}

// MayLook implements session.Identity. A nil caller may look at everything.
func (w *caller) MayLook(name string) error {
	if w == nil {
		return nil
	}
	return forbidden(w.id.Client.MayLook(name))
}

// Still implements session.Identity.
func (w *caller) Still() error { return toUnauthenticated(w.guard.Still(w.id)) }

// Expires implements session.Identity.
func (w *caller) Expires() time.Time { return w.id.Expires }

// Until implements session.Identity.
func (w *caller) Until() time.Time { return w.id.Until }

func (w *caller) sees(name string) bool { return w == nil || w.id.Client.Sees(name) }

func (w *caller) mayExamine() bool { return w == nil || w.id.Client.May(security.ActExamine) == nil }

// from is where a list of names with a prefix goes on for the caller: at key, or behind names that are hidden from it,
// so that no page token tells one. left is false if no name is left.
func (w *caller) from(prefix, key string) (from string, left bool) {
	name, _, _ := strings.Cut(key, "\x00")
	if w == nil || strings.HasPrefix(name, prefix) && w.sees(name) {
		return key, true
	}
	from, left = w.id.Client.From(max(prefix, name))
	return from, left && strings.HasPrefix(from, prefix)
}

// seesAll says whether nothing is hidden from the caller.
func (w *caller) seesAll() bool { return w == nil || w.id.Client.SeesAll() }

// identity is the caller as a session keeps it.
func (w *caller) identity() session.Identity {
	if w == nil {
		return nil
	}
	return w
}

// tenant is for whom a call is counted: for the client, or without a clients file for its address.
func (w *caller) tenant(ctx context.Context) lock.Tenant {
	if w == nil {
		return limits.TenantOf(peerOf(ctx))
	}
	return w.id.Client.Tenant()
}

// may is nil if the caller may make a unary call. Calls that are not listed here are forbidden.
func (w *caller) may(req any) error {
	if w == nil {
		return nil
	}
	client := w.id.Client
	switch r := req.(type) {
	case *lockdv1.AcquireRequest: // the broker checks the name
		return nil
	case *lockdv1.ReleaseRequest, *lockdv1.ListRequest, *lockdv1.ListSessionsRequest, *lockdv1.ListHoldsRequest,
		*lockdv1.ListDeadlocksRequest, *lockdv1.ListBusiestRequest, *lockdv1.GetStatusRequest, *lockdv1.WhoAmIRequest,
		*lockdv1.CanRequest:
		return nil // they concern its own leases, or show what it may look at
	case *lockdv1.ExtendRequest:
		return w.mayKeep(r.GetName())
	case *lockdv1.SetLimitRequest:
		return w.MayLock(r.GetName())
	case *lockdv1.GetRequest:
		return w.MayLook(r.GetName())
	case *lockdv1.InspectRequest:
		return w.MayLook(r.GetName())
	case *lockdv1.ListEventsRequest:
		return w.MayLook(r.GetName())
	case *lockdv1.ListWaitersRequest:
		if r.GetName() == "" {
			return nil
		}
		return w.MayLook(r.GetName())
	case *lockdv1.ForceReleaseRequest:
		return forbidden(client.MayTo(security.ActForce, r.GetName()))
	case *lockdv1.RemoveLimitRequest:
		return forbidden(client.MayTo(security.ActLimit, r.GetName()))
	case *lockdv1.AdoptLimitRequest:
		return forbidden(client.MayTo(security.ActLimit, r.GetName()))
	case *lockdv1.EndSessionRequest:
		return forbidden(client.MayToAll(security.ActForce))
	case *lockdv1.DrainRequest, *lockdv1.UndrainRequest:
		return forbidden(client.May(security.ActDrain))
	case *lockdv1.ExamineRequest:
		return forbidden(client.May(security.ActExamine))
	}
	return session.ErrForbidden
}

// mayRequest is nil if the client of a stream may make a request: it checks the rights that the session does not check
// itself, and the quota of requests.
func (c *conn) mayRequest(m *lockdv1.SessionRequest) error {
	if c.who == nil {
		return nil
	}
	switch r := m.GetMessage().(type) {
	case *lockdv1.SessionRequest_Release, *lockdv1.SessionRequest_Cancel, *lockdv1.SessionRequest_Unwatch,
		*lockdv1.SessionRequest_Heartbeat, *lockdv1.SessionRequest_Goodbye:
		return nil // they take nothing, and are not counted
	case *lockdv1.SessionRequest_Extend:
		if err := c.who.mayKeep(r.Extend.GetName()); err != nil {
			return err
		}
	case *lockdv1.SessionRequest_SetLimit:
		if err := c.who.MayLock(r.SetLimit.GetName()); err != nil {
			return err
		}
	case *lockdv1.SessionRequest_Look:
		if err := c.who.MayLook(r.Look.GetName()); err != nil {
			return err
		}
	case *lockdv1.SessionRequest_Acquire, *lockdv1.SessionRequest_Watch, *lockdv1.SessionRequest_ListHolds,
		*lockdv1.SessionRequest_Open, nil: // the broker and the session check these, or refuse them anyway
	default:
		return session.ErrForbidden
	}
	return c.use.Request()
}

// clientOf is what lockd knows about who makes a unary call.
func clientOf(ctx context.Context) session.Client {
	return session.Client{Peer: peerOf(ctx), Identity: callerOf(ctx).name()}
}

// callerKey is the key of the caller in the context of a unary call.
type callerKey struct{}

func callerOf(ctx context.Context) *caller {
	who, _ := ctx.Value(callerKey{}).(*caller)
	return who
}
