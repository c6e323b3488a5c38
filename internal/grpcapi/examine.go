package grpcapi

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/limits"
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
	if h.examining.Enter(ctx, limits.Patient) != nil {
		return nil, toStatus(lock.ErrUnavailable)
	}
	defer h.examining.Leave()
	for _, f := range h.cfg.Examine(ctx) {
		resp.Findings = append(resp.Findings, &lockdv1.Finding{
			Severity: fromSeverity(f.Severity), Check: f.Check, Node: f.Node, Detail: f.Detail, Remedy: f.Remedy,
		})
	}
	return resp, nil
}

func fromSeverity(s lock.Severity) lockdv1.Finding_Severity {
	switch s {
	case lock.SeverityOK:
		return lockdv1.Finding_SEVERITY_OK
	case lock.SeverityInfo:
		return lockdv1.Finding_SEVERITY_INFO
	case lock.SeverityWarning:
		return lockdv1.Finding_SEVERITY_WARNING
	case lock.SeverityError:
		return lockdv1.Finding_SEVERITY_ERROR
	default:
		return lockdv1.Finding_SEVERITY_UNSPECIFIED
	}
}
