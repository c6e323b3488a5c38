package grpcapi

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

type adminService struct {
	lockdv1.UnimplementedAdminServiceServer
	replica
	server    *Server
	log       *zap.Logger
	examining limits.Slots
}

// ForceRelease frees a name whoever holds it.
func (h *adminService) ForceRelease(ctx context.Context,
	r *lockdv1.ForceReleaseRequest,
) (*lockdv1.ForceReleaseResponse, error) {
	who := callerOf(ctx)
	forced := session.Forced{Identity: who.name(), By: r.GetBy(), Why: r.GetWhy()}
	holders, notTold := h.b.AnnounceForce(ctx, r.GetName(), forced)
	if errors.Is(notTold, lock.ErrInvalid) {
		return nil, notTold
	}
	released, err := h.b.ForceRelease(ctx, r.GetName(), toKind(r.GetKind()))
	who.forced(forced, toKind(r.GetKind()), holders, released)
	if err == nil || errors.Is(err, lock.ErrOutcomeUnknown) {
		h.log.Info("released by force", zap.String(observe.KeyName, r.GetName()),
			zap.Stringer(observe.KeyKind, toKind(r.GetKind())), zap.Bool(observe.KeyReleased, released),
			zap.Objects(observe.KeyHolders, loggedHolders(holders)), zap.String(observe.KeyBy, forced.Who()),
			zap.String(observe.KeyWhy, r.GetWhy()), zap.String(observe.KeyPeer, peerOf(ctx)), zap.Error(err),
			zap.NamedError(observe.KeyNotTold, notTold))
	}
	return &lockdv1.ForceReleaseResponse{Released: released}, err
}

// loggedHolder is a holder of a name as the log shows it.
type loggedHolder inspect.Holder

func loggedHolders(holders []inspect.Holder) (logged []loggedHolder) {
	for _, h := range holders {
		logged = append(logged, loggedHolder(h))
	}
	return logged
}

// MarshalLogObject is for package zap.
func (h loggedHolder) MarshalLogObject(o zapcore.ObjectEncoder) error {
	o.AddString(observe.KeyOwner, string(h.Owner))
	o.AddString(observe.KeySession, h.Session)
	o.AddString(observe.KeyClient, h.Client.Name)
	o.AddString(observe.KeyPeer, h.Client.Peer)
	o.AddString(observe.KeyReplica, h.Replica)
	return nil
}

// RemoveLimit forgets a semaphore of which no permit is out.
func (h *adminService) RemoveLimit(ctx context.Context,
	r *lockdv1.RemoveLimitRequest,
) (*lockdv1.RemoveLimitResponse, error) {
	previous, err := h.b.RemoveLimit(ctx, r.GetName(), clientOf(ctx))
	h.log.Info("a limit was to be removed", zap.String(observe.KeyName, r.GetName()),
		zap.String(observe.KeyPeer, peerOf(ctx)), zap.Error(err))
	return &lockdv1.RemoveLimitResponse{Previous: previous}, err
}

// AdoptLimit makes a semaphore of a number that another program set.
func (h *adminService) AdoptLimit(ctx context.Context,
	r *lockdv1.AdoptLimitRequest,
) (*lockdv1.AdoptLimitResponse, error) {
	err := h.b.AdoptLimit(ctx, request.SetLimit{Name: r.GetName(), Limit: r.GetLimit(), By: clientOf(ctx)})
	h.log.Info("a number was to be a semaphore", zap.String(observe.KeyName, r.GetName()),
		zap.String(observe.KeyPeer, peerOf(ctx)), zap.Error(err))
	return &lockdv1.AdoptLimitResponse{}, err
}

// endTime bounds the end of a session: replicas are asked twice, and the store in between.
const endTime = 10 * time.Second

// EndSession ends a session wherever it is. It goes on when the caller leaves, and is logged.
func (h *adminService) EndSession(ctx context.Context,
	r *lockdv1.EndSessionRequest,
) (*lockdv1.EndSessionResponse, error) {
	who := callerOf(ctx)
	forced := session.Forced{Identity: who.name(), By: r.GetBy(), Why: r.GetWhy()}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	e, err := h.b.EndSession(ctx, r.GetSessionId(), forced)
	if errors.Is(err, lock.ErrInvalid) {
		return nil, err
	}
	who.endedSession(r.GetSessionId(), forced, e)
	h.log.Info("a session was to be ended", zap.String(observe.KeySession, r.GetSessionId()),
		zap.Bool(observe.KeyEnded, e.Ended), zap.Bool(observe.KeyReleased, e.Released),
		zap.String(observe.KeyBy, forced.Who()), zap.String(observe.KeyWhy, r.GetWhy()),
		zap.String(observe.KeyPeer, peerOf(ctx)), zap.Error(err))
	return &lockdv1.EndSessionResponse{
		Ended: e.Ended, Released: e.Released,
		ReplicasAnswered: count(e.Answered), ReplicasAsked: count(e.Asked),
	}, err
}

// Drain asks all clients of this replica to move on.
func (h *adminService) Drain(ctx context.Context, r *lockdv1.DrainRequest) (*lockdv1.DrainResponse, error) {
	within, err := toDuration("within", r.GetWithin())
	if err != nil {
		return nil, err
	}
	if within == nil {
		within = &h.cfg.DrainWindow
	}
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	h.server.health.Shutdown()
	h.log.Info("drain was asked for", zap.Duration(observe.KeyWithin, *within), zap.String(observe.KeyPeer, peerOf(ctx)))
	return &lockdv1.DrainResponse{Sessions: count(h.b.Drain(max(*within, 0))), Replica: h.b.Replica()}, nil
}

// Undrain takes a Drain back. Once the replica stops it fails with ErrDraining.
func (h *adminService) Undrain(ctx context.Context, _ *lockdv1.UndrainRequest) (*lockdv1.UndrainResponse, error) {
	h.server.mu.Lock()
	defer h.server.mu.Unlock()
	if h.server.stopping {
		return nil, session.ErrDraining
	}
	drained := h.b.Undrain()
	h.log.Info("the drain was taken back", zap.String(observe.KeyPeer, peerOf(ctx)))
	h.server.health.Resume()
	return &lockdv1.UndrainResponse{Drained: drained, Replica: h.b.Replica()}, nil
}
