package grpcapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/lock"
)

// examineTime bounds an examination. The store has bounds of its own.
const examineTime = 12 * time.Second

// Examine tells what is wrong here and in the store. One examination goes on at a time: each asks a lot.
func (h *adminService) Examine(ctx context.Context, _ *lockdv1.ExamineRequest) (*lockdv1.ExamineResponse, error) {
	resp := &lockdv1.ExamineResponse{
		Replica: h.b.Replica(), Version: h.cfg.Version, Uptime: durationpb.New(time.Since(h.started)), Store: h.cfg.Store,
	}
	if h.cfg.Examine == nil {
		return resp, nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, examineTime, errors.New("the servers did not answer in time"))
	defer cancel()
	if h.examining.Enter(ctx) != nil {
		return nil, lock.ErrUnavailable
	}
	defer h.examining.Leave()
	for _, f := range h.cfg.Examine(ctx) {
		resp.Findings = append(resp.Findings, &lockdv1.Finding{
			Severity: severities[f.Severity], Check: f.Check, Node: f.Node, Detail: f.Detail, Remedy: f.Remedy,
		})
	}
	return resp, nil
}

// severities are those of findings, on the wire.
var severities = map[lock.Severity]lockdv1.Finding_Severity{
	lock.SeverityOK:      lockdv1.Finding_SEVERITY_OK,
	lock.SeverityInfo:    lockdv1.Finding_SEVERITY_INFO,
	lock.SeverityWarning: lockdv1.Finding_SEVERITY_WARNING,
	lock.SeverityError:   lockdv1.Finding_SEVERITY_ERROR,
}
